package mapping

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"
	"github.com/lestrrat-go/strftime"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// oracle evaluates a template on the reference implementation of jsonnet. The functions of the event are reimplemented,
// on encoding/json, so that a fault of ours has no twin here.
type oracle struct {
	node ast.Node
	vm   *jsonnet.VM
	r    *Record
}

const oraclePrelude = `
local Ip = std.native("Ip"), BodyStr = std.native("BodyStr"), HeaderStr = std.native("HeaderStr"),
  Now(format=null) = std.native("Now")(format),
  got(r, default) = if r.found then r.value
    else if std.isObject(default) && std.objectHasAll(default, "no default") then error r.message else default,
  none = { "no default":: true },
  Body(path="", default=none) = got(std.native("Body")(path), default),
  Header(header="", default=none) = got(std.native("Header")(header), default);
`

func newOracle(content string) (*oracle, error) {
	// The check of the text alone, in which the names above do not exist.
	if _, err := jsonnet.SnippetToAST("t", "local Ip=0,Body=0,BodyStr=0,Header=0,HeaderStr=0,Now=0;"+content); err != nil {
		return nil, err
	}
	node, err := jsonnet.SnippetToAST("t", oraclePrelude+content)
	if err != nil {
		return nil, err
	}
	o := &oracle{node: node, vm: jsonnet.MakeVM()}
	o.vm.SetTraceOut(&bytes.Buffer{})
	def := func(name string, params ast.Identifiers, f func([]any) (any, error)) {
		o.vm.NativeFunction(&jsonnet.NativeFunction{Name: name, Params: params, Func: f})
	}
	def("Ip", nil, func([]any) (any, error) { return o.r.ClientIP.String(), nil })
	def("BodyStr", nil, func([]any) (any, error) { return string(o.r.Body), nil })
	def("HeaderStr", nil, func([]any) (any, error) { return o.r.headersText(true), nil })
	def("Now", ast.Identifiers{"format"}, func(args []any) (any, error) {
		if args[0] == nil {
			return o.r.Received.UTC().Format("2006-01-02T15:04:05.000Z"), nil
		}
		s, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("format")
		}
		f, err := strftime.New(s, strftime.WithMilliseconds('f'))
		if err != nil {
			return nil, err
		}
		return f.FormatString(o.r.Received.UTC()), nil
	})
	found := func(v any, ok bool, what string) map[string]any {
		return map[string]any{"found": ok, "value": v, "message": what + " not found"}
	}
	def("Header", ast.Identifiers{"header"}, func(args []any) (any, error) {
		name, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("name")
		}
		if name == "" {
			all := map[string]any{}
			for k, v := range o.r.Header {
				all[k] = v[0]
			}
			return found(all, true, ""), nil
		}
		v := o.r.Header.Values(name)
		if len(v) == 0 {
			return found(nil, false, name), nil
		}
		return found(v[0], true, name), nil
	})
	def("Body", ast.Identifiers{"path"}, func(args []any) (any, error) {
		path, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("path")
		}
		v, err := decodeLast(o.r.Body)
		if err != nil {
			return nil, err
		}
		parsed, _ := tape.ParsePath(path, true)
		steps := parsed.Steps
		if _, isObj := v.(map[string]any); !isObj && len(steps) == 0 {
			return nil, fmt.Errorf("not an object")
		}
		for _, s := range steps {
			switch in := v.(type) {
			case map[string]any:
				if v, ok = in[s.Key]; !ok {
					return found(nil, false, path), nil
				}
			case []any:
				if s.Index < 0 || s.Index >= len(in) {
					return found(nil, false, path), nil
				}
				v = in[s.Index]
			default:
				return found(nil, false, path), nil
			}
		}
		v, err = floats(v)
		return found(v, true, path), err
	})
	return o, nil
}

// floats replaces the numbers of a value by 64-bit floats.
func floats(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		return strconv.ParseFloat(v.String(), 64)
	case []any:
		for i := range v {
			if v[i], err = floats(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = floats(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// decodeLast decodes JSON in which the last of several members with the same name counts.
func decodeLast(b []byte) (any, error) {
	if !json.Valid(b) {
		return nil, fmt.Errorf("malformed")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var read func() (any, error)
	read = func() (any, error) {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case json.Delim:
			if tok == '[' {
				out := []any{}
				for dec.More() {
					v, err := read()
					if err != nil {
						return nil, err
					}
					out = append(out, v)
				}
				_, err := dec.Token()
				return out, err
			}
			out := map[string]any{}
			for dec.More() {
				k, err := dec.Token()
				if err != nil {
					return nil, err
				}
				v, err := read()
				if err != nil {
					return nil, err
				}
				out[k.(string)] = v
			}
			_, err := dec.Token()
			return out, err
		}
		return tok, nil
	}
	return read()
}

// eval gives the value as compact JSON.
func (o *oracle) eval(r *Record) (out string, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic: %v", e)
		}
	}()
	o.r = r
	s, err := o.vm.Evaluate(o.node)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	return b.String(), nil
}
