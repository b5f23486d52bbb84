package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"
	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// A task is one kind of column over bodies made for it.
type task struct {
	columns mapping.Columns
	// body returns a JSON event. Events of different numbers differ.
	body func(n int) []byte
	// random is set when a row is never the same twice, and has the same length.
	random bool
}

// events is how many different bodies a caller maps in turn.
const events = 64

// templateText is the program of map/template and of its baseline.
const templateText = `Body('a.b') + '-' + Header('X','n')`

// ofMapping returns the scenarios of single kinds of columns, each compared with a well-known library that does the same part.
func ofMapping() []scenario {
	paths := task{body: paddedBody}
	var queries []string
	for i := range 20 {
		path := fieldName(i)
		if i%4 == 2 {
			path += ".name"
		}
		queries = append(queries, path)
		paths.columns = append(paths.columns, mapping.Path(fmt.Sprintf("c%d", i), path))
	}
	typed, untyped := typedValues()
	template := task{columns: mapping.Columns{mapping.Template("t", templateText)}, body: nestedBody}
	all := []scenario{
		{name: "baseline/gjson/paths20", run: gjsonPaths(paths, queries)},
		{name: "baseline/jsonnet/template", run: jsonnetTemplate(template)},
		{name: "map/path", run: mapTask(task{columns: mapping.Columns{mapping.Path("user", "user.id")}, body: smallBody})},
		{name: "map/paths20", run: mapTask(paths), against: []baseline{{"gjson", "baseline/gjson/paths20"}}},
		{name: "map/template", run: mapTask(template), against: []baseline{{"jsonnet", "baseline/jsonnet/template"}}},
		{name: "map/uuid", run: mapUUID},
		{name: "map/values", run: mapTask(untyped)},
		{name: "map/values/typed", run: mapTask(typed), against: []baseline{{"untyped", "map/values"}}},
	}
	for i := range all {
		all[i].group = "map"
	}
	return all
}

// typedValues returns seven paths with types to values of them, and the same paths without types.
func typedValues() (typed, untyped task) {
	body := func(n int) []byte {
		b := fmt.Appendf(nil, `{"order":{"id":%d,"ref":"0190a5b2-7c3d-7e4f-8a5b-%012x","total":%d.5,"paid":%v},"at":"2026-11-22T23:00:%02d.123Z","ratio":0.%d,"kind":"created"`,
			int64(1_700_000_000_000)+int64(n), n, n, n%2 == 0, n%60, n+1)
		return append(bytes.TrimSuffix(b, []byte("}")), paddedBody(n)[len(`{"source":"web"`):]...)
	}
	list := mapping.Columns{
		mapping.Path("id", "order.id", mapping.DataType(datatype.Int64)), mapping.Path("ref", "order.ref", mapping.DataType(datatype.UUID)),
		mapping.Path("total", "order.total", mapping.DataType(datatype.Decimal(10, 2))), mapping.Path("paid", "order.paid", mapping.DataType(datatype.Bool)),
		mapping.Path("at", "at", mapping.DataType(datatype.Timestamp)), mapping.Path("ratio", "ratio", mapping.DataType(datatype.Float64)),
		mapping.Path("kind", "kind", mapping.DataType(datatype.String)),
	}
	typed, untyped = task{columns: list, body: body}, task{body: body}
	for _, c := range list {
		untyped.columns = append(untyped.columns, mapping.Path(c.Name, c.Path, mapping.RawString()))
	}
	return typed, untyped
}

func smallBody(n int) []byte {
	return fmt.Appendf(nil, `{"id":%d,"user":{"id":"u-%04d","name":"Ann"},"kind":"click","ok":true}`, 10000+n, n)
}

func nestedBody(n int) []byte { return fmt.Appendf(nil, `{"a":{"b":"text %04d"},"n":5}`, n) }

func fieldName(i int) string { return fmt.Sprintf("field_%02d", i) }

// paddedBody returns an object of 1 KB with 20 fields: texts, numbers, objects and arrays.
func paddedBody(n int) []byte {
	b := []byte(`{"source":"web","version":3`)
	for i := range 20 {
		b = fmt.Appendf(b, `,"%s":`, fieldName(i))
		switch i % 4 {
		case 0:
			b = fmt.Appendf(b, `"the value of %04d is text"`, n+i)
		case 1:
			b = fmt.Appendf(b, `%d.%d`, 1000+n, i)
		case 2:
			b = fmt.Appendf(b, `{"name":"inner %04d","flag":true}`, n+i)
		case 3:
			b = fmt.Appendf(b, `[%d,%d,"%d"]`, 10+i, 20+i, 30+i)
		}
	}
	const end = `"}`
	b = append(b, `,"pad":"`...)
	b = append(b, strings.Repeat("x", max(0, 1024-len(b)-len(end)))...)
	return append(b, end...)
}

// fill makes r the record of a body that has just been received. What was parsed before is not kept, its memory is.
func fill(r *mapping.Record, body []byte) {
	r.Reset()
	r.Body, r.Format, r.Header, r.ClientIP, r.Received = body, mapping.FormatJSON, sharedHeader, clientIP, received
}

// sharedHeader belongs to all records and is never changed.
var sharedHeader = header()

func (t task) rows() (bodies, rows [][]byte) {
	mapper := must(mapping.Compile(t.columns, mapping.Options{}))
	for n := range events {
		body := t.body(n)
		r := new(mapping.Record)
		fill(r, body)
		bodies, rows = append(bodies, body), append(rows, must(mapper.AppendRow(nil, r)))
	}
	return bodies, rows
}

// mapTask maps bodies to rows on one core. Setting each body in one reused record is part of the measurement.
func mapTask(t task) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		mapper := must(mapping.Compile(t.columns, mapping.Options{}))
		var record mapping.Record
		var row []byte
		return t.measure(ctx, e, func(body, want []byte) error {
			fill(&record, body)
			var err error
			if row, err = mapper.AppendRow(row[:0], &record); err != nil {
				return err
			}
			if !bytes.Equal(row, want) && !(t.random && len(row) == len(want)) {
				return fmt.Errorf("the row is %q, want %q", row, want)
			}
			return nil
		})
	}
}

// measure runs do over all bodies in turn, on one core, each with the row that it must become.
func (t task) measure(ctx context.Context, e *env, do func(body, row []byte) error) (*sample, error) {
	bodies, rows := t.rows()
	n := 0
	return oneCore(ctx, e, len(rows[0]), 16, func() (int, error) {
		n = (n + 1) % events
		return 1, do(bodies[n], rows[n])
	})
}

// gjsonPaths looks up each query on its own and writes nothing.
func gjsonPaths(t task, queries []string) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		return t.measure(ctx, e, func(body, _ []byte) error {
			for _, q := range queries {
				if !gjson.GetBytes(body, q).Exists() {
					return fmt.Errorf("the body has no %s", q)
				}
			}
			return nil
		})
	}
}

// jsonnetTemplate evaluates a program that is parsed once on one virtual machine. The functions of the event are native
// ones that do the least that is possible.
func jsonnetTemplate(t task) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		program := must(jsonnet.SnippetToAST("template",
			"local Body = std.native('Body'), Header = std.native('Header'); "+templateText))
		var event []byte
		vm := jsonnet.MakeVM()
		vm.SetTraceOut(io.Discard)
		vm.NativeFunction(&jsonnet.NativeFunction{
			Name: "Body", Params: ast.Identifiers{"path"},
			Func: func(args []any) (any, error) { return gjson.GetBytes(event, args[0].(string)).Value(), nil },
		})
		vm.NativeFunction(&jsonnet.NativeFunction{
			Name: "Header", Params: ast.Identifiers{"name", "default"},
			Func: func(args []any) (any, error) {
				if v := sharedHeader[args[0].(string)]; len(v) > 0 {
					return v[0], nil
				}
				return args[1], nil
			},
		})
		return t.measure(ctx, e, func(body, row []byte) error {
			event = body
			value, err := vm.Evaluate(program)
			if err != nil {
				return err
			}
			// The row has the value quoted once more.
			if value = strings.TrimSpace(value); !strings.Contains(string(row), strings.Trim(value, `"`)) {
				return fmt.Errorf("the value is %s, the row %s", value, row)
			}
			return nil
		})
	}
}

// mapUUID makes identifiers, which ascend.
func mapUUID(ctx context.Context, e *env) (*sample, error) {
	mapper := must(mapping.Compile(mapping.Columns{mapping.UUID("id")}, mapping.Options{}))
	var record mapping.Record
	var row, last []byte
	const rowBytes = 36 + len("\"\"\n")
	return oneCore(ctx, e, rowBytes, 16, func() (int, error) {
		row, last = last, row
		fill(&record, nil)
		var err error
		if row, err = mapper.AppendRow(row[:0], &record); err != nil {
			return 0, err
		}
		if len(row) != rowBytes || bytes.Compare(row, last) <= 0 {
			return 0, fmt.Errorf("%q does not follow %q", row, last)
		}
		return 1, nil
	})
}
