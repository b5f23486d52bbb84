package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"
	"github.com/lestrrat-go/strftime"
)

// Program is a compiled template. It is immutable and safe for concurrent use.
type Program struct {
	node   ast.Node
	compat bool
}

// TemplateError says why a template is refused, with the place in the user's text.
type TemplateError struct {
	// Line and Col count from 1; Col counts characters.
	Line, Col int
	// Msg says what is wrong.
	Msg string
}

func (e *TemplateError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Msg) }

// CompileTemplate parses, checks and compiles a jsonnet program. A fault of the program gives a [*TemplateError].
func CompileTemplate(content string, opts Options) (*Program, error) {
	node, err := jsonnet.SnippetToAST("template", prelude+content)
	if err != nil {
		return nil, err
	}
	return &Program{node: node, compat: opts.Compat}, nil
}

const prelude = `local Ip=std.native("Ip"),HeaderStr=std.native("HeaderStr"),BodyStr=std.native("BodyStr"),` +
	`Now(format="%Y-%m-%dT%H:%M:%S.%fZ")=std.native("Now")(format),` +
	`Header(header="",default=std)=if default==std then std.native("Header")(header,null,false) else std.native("Header")(header,default,true),` +
	`Body(path="",default=std)=if default==std then std.native("Body")(path,null,false) else std.native("Body")(path,default,true);`

// run evaluates the program and appends its value as JSON, or as plain text when raw is set and it is a string.
func (p *Program) run(dst []byte, r *Record, raw bool) ([]byte, *cause) {
	vm := jsonnet.MakeVM()
	var native *cause
	define := func(name string, params ast.Identifiers, f func(args []any) (any, *cause)) {
		vm.NativeFunction(&jsonnet.NativeFunction{Name: name, Params: params, Func: func(args []any) (any, error) {
			v, fail := f(args)
			if fail != nil {
				native = fail
				return nil, fail.err
			}
			return v, nil
		}})
	}
	define("Ip", nil, func([]any) (any, *cause) { return string(appendIP(nil, r, p.compat)), nil })
	define("HeaderStr", nil, func([]any) (any, *cause) { return r.headersText(p.compat), nil })
	define("BodyStr", nil, func([]any) (any, *cause) {
		b, fail := r.rawBody()
		return string(b), fail
	})
	define("Now", ast.Identifiers{"format"}, func(args []any) (any, *cause) {
		format, _ := args[0].(string)
		out, err := strftime.Format(format, r.Received.UTC(), strftime.WithMilliseconds('f'))
		if err != nil {
			return nil, &cause{TemplateFailed, err}
		}
		return out, nil
	})
	define("Header", ast.Identifiers{"header", "default", "has"}, func(args []any) (any, *cause) {
		name, _ := args[0].(string)
		if name == "" {
			var v any
			return v, asCause(json.Unmarshal(r.headersJSON(p.compat), &v))
		}
		if v, ok := r.header(name, p.compat); ok {
			return v, nil
		}
		if args[2] == true {
			return args[1], nil
		}
		return nil, &cause{MissingValue, fmt.Errorf("header %q is missing", name)}
	})
	define("Body", ast.Identifiers{"path", "default", "has"}, func(args []any) (any, *cause) {
		name, _ := args[0].(string)
		path, err := parsePath(name, p.compat)
		if err != nil {
			return nil, asCause(err)
		}
		t, fail := r.parse(p.compat)
		if fail == nil {
			if at, ok := t.lookup(0, path.steps); ok {
				var v any
				return v, asCause(json.Unmarshal(t.appendValue(nil, at), &v))
			}
			fail = &cause{MissingValue, fmt.Errorf("path %q: the body has no such field", name)}
		}
		if args[2] == true {
			return args[1], nil
		}
		return nil, fail
	})
	out, err := vm.Evaluate(p.node)
	if err != nil {
		if native != nil {
			return dst, native
		}
		return dst, &cause{TemplateFailed, errors.New(strings.SplitN(err.Error(), "\n", 2)[0])}
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(out)); err != nil {
		return dst, &cause{TemplateFailed, err}
	}
	if s := ""; raw && json.Unmarshal(b.Bytes(), &s) == nil {
		return append(dst, s...), nil
	}
	return append(dst, b.Bytes()...), nil
}

func asCause(err error) *cause {
	if err == nil {
		return nil
	}
	return &cause{TemplateFailed, err}
}
