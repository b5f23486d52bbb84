package mapping

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"
)

// Program is a compiled template. It is immutable and safe for concurrent use.
//
// The zero value is no program: it fails.
type Program struct {
	run    code
	compat bool
	budget Budget
	text   source
	places []textRange
	root   place // of the whole
}

// TemplateError says why a template is refused, with the place in the user's text.
type TemplateError struct {
	// Line and Col count from 1; Col counts characters. Both are 0 when the fault has no place.
	Line, Col int
	// Msg says what is wrong.
	Msg string
}

func (e *TemplateError) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Msg)
}

// The functions of the event are declared to the parser before the user's text, on lines of their own.
const (
	prelude      = "local Ip=0,Body=0,BodyStr=0,Header=0,HeaderStr=0,Now=0;\n"
	preludeLines = 1
)

// CompileTemplate parses, checks and compiles a jsonnet program. What the program's text alone shows to be wrong is
// found here: syntax, unknown variables and members of std, names that are declared twice, wrong arguments of the functions of the event and of std,
// malformed constant paths and time formats, import, std.extVar and std.native. All such faults are reported, each as
// a [*TemplateError]; a fault of the syntax hides the others. A text that is empty, longer than [MaxTemplateLength], or
// whose brackets nest deeper than 200 levels is refused before it is parsed, so any text can be given, whoever wrote it.
func CompileTemplate(content string, opts Options) (*Program, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	p, faults := compileTemplate(content, opts)
	if faults == nil {
		return p, nil
	}
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return nil, errors.Join(errs...)
}

func compileTemplate(content string, opts Options) (*Program, []*TemplateError) {
	text := source(content)
	if fault := text.limits(); fault != nil {
		return nil, []*TemplateError{fault}
	}
	root, err := parseTemplate(content)
	if err != nil {
		return nil, []*TemplateError{text.fault(err)}
	}
	c := &compiler{compat: opts.Compat, source: text}
	body := root.(*ast.Local).Body
	e, whole := c.node(body, nil), c.place(body)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	if e.height > maxHeight/4 {
		return nil, []*TemplateError{{1, 1, "the expressions are nested too deep"}}
	}
	return &Program{run: e.run, compat: opts.Compat, budget: opts.Budget.withDefaults(), text: text, places: c.places, root: whole}, nil
}

// parseTemplate parses the text. The parser ends at the first unknown variable; so that the compiler can find all of them,
// and all other faults, they are declared to it.
func parseTemplate(content string) (ast.Node, error) {
	const most = 16 // of them are named in one go
	declared := strings.TrimSuffix(prelude, ";\n")
	for n := 0; ; n++ {
		root, err := jsonnet.SnippetToAST("template", declared+";\n"+content)
		if err == nil {
			return root, nil
		}
		_, name, ok := strings.Cut(err.Error(), "Unknown variable: ")
		name = strings.TrimSpace(name)
		if !ok || n == most || strings.Contains(declared, ","+name+"=0") {
			return nil, err
		}
		declared += "," + name + "=0"
	}
}

// Compiled reports whether the program runs as compiled code. It is always true: there is no interpreter that some
// templates fall back to, and a text that cannot be compiled is refused. It exists for tools that show how a template
// runs.
func (p *Program) Compiled() bool { return p.run != nil }

// source is the user's text.
type source string

// at makes a fault at a place that the parser gave, which counts lines with the prelude and bytes in a line.
func (s source) at(loc ast.Location, msg string) *TemplateError {
	e := &TemplateError{max(loc.Line-preludeLines, 1), loc.Column, msg}
	line := string(s)
	for range e.Line - 1 {
		_, line, _ = strings.Cut(line, "\n")
	}
	if n := e.Col - 1; n > 0 && n <= len(line) {
		e.Col = utf8.RuneCountInString(line[:n]) + 1
	}
	return e
}

// fault takes the place out of an error of the parser.
func (s source) fault(err error) *TemplateError {
	msg := err.Error()
	var located interface{ Loc() ast.LocationRange }
	if !errors.As(err, &located) {
		return &TemplateError{0, 0, msg}
	}
	begin := located.Loc().Begin
	for strings.HasPrefix(msg, "template:") {
		where, rest, ok := strings.Cut(msg, " ")
		if !ok {
			break
		}
		if !begin.IsSet() {
			// A fault of an escape is an error within an error, and only its text has the place.
			where = strings.TrimPrefix(strings.TrimPrefix(where, "template:"), "(")
			_, _ = fmt.Sscanf(where, "%d:%d", &begin.Line, &begin.Column)
		}
		msg = rest
	}
	return s.at(begin, msg)
}

// machines are reused between evaluations of any program: a machine is reset before each.
var machines = sync.Pool{New: func() any { return new(machine) }}

// Append evaluates the program and appends its value to dst as compact JSON; when raw is set and the value is a
// string, its plain text. When it fails it returns dst as it was and an [*Error] without a column, or another error for a
// zero Program. dst must not overlap the record.
func (p *Program) Append(dst []byte, r *Record, raw bool) ([]byte, error) {
	if p.run == nil {
		return dst, errors.New("mapping: a zero Program has no template; CompileTemplate makes one")
	}
	out, fail := p.eval(dst, r, raw)
	if fail != nil {
		return dst, fail.error("")
	}
	return out, nil
}

func (p *Program) eval(dst []byte, r *Record, raw bool) (out []byte, fail *cause) {
	m := machines.Get().(*machine)
	m.reset(r, p.compat, p.budget)
	m.at = p.root
	defer func() {
		if e := recover(); e != nil {
			out, fail = dst, asCause(e)
			if m.at > 0 {
				fail = &cause{fail.reason, fail.err, p.text.spot(p.places[m.at-1])}
			}
		}
		m.release(fail != nil)
		machines.Put(m)
	}()
	v := p.run(m, nil)
	m.at = 0 // a value that cannot be written has no place
	if v.kind == kindFunction {
		v = m.call(v.ref.(*function)) // a function without required parameters is called, as the jsonnet command does
	}
	limit := len(dst) + p.budget.Output
	if raw && v.kind == kindString {
		out = append(dst, v.str...)
	} else {
		w := writer{m: m, verbatim: !p.compat, limit: limit, unit: "output"}
		out = w.value(dst, v)
	}
	if len(out) > limit {
		m.exceed("bytes of output", p.budget.Output)
	}
	return out, nil
}

// asCause turns what was thrown into a failure of the record. Anything but a *cause is a defect of this package or of a
// library under it, but it must not end the process of others.
func asCause(e any) *cause {
	if c, ok := e.(*cause); ok {
		return c
	}
	return &cause{reason: TemplateFailed, err: fmt.Errorf("internal error: %v", e)}
}
