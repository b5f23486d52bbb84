// Package templates evaluates a jsonnet template over one event, and shows the value, the definition of the column and the cost.
package templates

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/mapping"
)

// Run is the program. It returns [flag.ErrHelp] after -h, which shows the flags on usage.
func Run(args []string, stdin io.Reader, stdout, usage io.Writer) error {
	flags := flag.NewFlagSet("templates", flag.ContinueOnError)
	flags.SetOutput(usage)
	expr := flags.String("e", "", "the template, a text (default none; e.g. \"Body('a') + 1\")")
	file := flags.String("template", "", "file with the template (default none; e.g. label.jsonnet)")
	event := flags.String("event", "-", "file with the event, - for standard input (e.g. event.json)")
	raw := flags.Bool("raw", false, "store a string as plain text (rawString)")
	compat := flags.Bool("compat", false, "give the same bytes as the published service")
	cost := flags.Bool("cost", true, "measure the cost per record (default on; e.g. -cost=false)")
	header := http.Header{"Content-Type": {"application/json"}}
	flags.Func("header", "a request header, Name=value; may be repeated (default none; e.g. X-Env=prod)", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want Name=value")
		}
		header.Add(name, value)
		return nil
	})
	if err := flagtext.Parse(flags, args); err != nil {
		return err
	}

	if (*expr == "") == (*file == "") {
		return errors.New("give a template, either with -e or with -template; -help shows the flags")
	}
	content := *expr
	if *file != "" {
		b, err := keep.Read("template", *file)
		if err != nil {
			return err
		}
		content = string(b)
	}
	body, err := readEvent(*event, stdin)
	if err != nil {
		return err
	}

	var opts []mapping.ColumnOption
	if *raw {
		opts = append(opts, mapping.RawString())
	}
	col := mapping.Template("value", content, opts...)
	source := forebay.Source{ID: "example", Sinks: []forebay.Sink{
		{ID: "example", Table: forebay.Table{ID: "example", Columns: mapping.Columns{col}}},
	}}
	compiled, err := forebay.Compile(source, forebay.Options{Mapping: mapping.Options{Compat: *compat}})
	if refused, ok := errors.AsType[*forebay.DefinitionError](err); ok {
		for _, problem := range refused.Problems {
			if fault, ok := errors.AsType[*mapping.DefinitionError](problem); ok {
				point(stdout, content, fault)
			}
		}
		return errors.New("the template is refused")
	}
	if err != nil {
		return err
	}
	m := compiled.Mapper("example")

	record := &mapping.Record{
		Body: body, Header: header, ClientIP: netip.MustParseAddr("203.0.113.7"), Received: time.Now(),
	}
	cell := m.Cells(record)[0]
	var rejected *mapping.Error
	if errors.As(cell.Err, &rejected) {
		return fmt.Errorf("the record is rejected (%s): %w", rejected.Reason, rejected.Err)
	}
	definition, err := json.Marshal(col)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "value       %s\n", cell.Value)
	fmt.Fprintf(stdout, "definition  %s\n", definition)
	if *cost {
		fmt.Fprintf(stdout, "per record  %s\n", measure(m, record))
	}
	return nil
}

// measure maps the record again and again, each time as a new one. Every template is compiled. There is no slower
// engine that some fall back to, but the cost of a template depends on its work.
func measure(m *mapping.Mapper, r *mapping.Record) string {
	var row []byte
	fresh := new(mapping.Record)
	res := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fresh.Reset()
			fresh.Body, fresh.Header, fresh.ClientIP, fresh.Received = r.Body, r.Header, r.ClientIP, r.Received
			var err error
			if row, err = m.AppendRow(row[:0], fresh); err != nil {
				b.Fatal(err)
			}
		}
	})
	return fmt.Sprintf("%d ns, %d allocations of %d bytes", res.NsPerOp(), res.AllocsPerOp(), res.AllocedBytesPerOp())
}

// point shows a fault under the line where it is.
func point(w io.Writer, content string, f *mapping.DefinitionError) {
	fmt.Fprintf(w, "%d:%d: %v\n", f.Line, f.Col, f.Err)
	lines := strings.Split(content, "\n")
	if f.Line < 1 || f.Line > len(lines) {
		return
	}
	fmt.Fprintf(w, "    %s\n    %s^\n", lines[f.Line-1], strings.Repeat(" ", max(f.Col-1, 0)))
}

func readEvent(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return keep.Read("event", name)
}
