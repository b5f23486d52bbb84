//go:build !forebay_notemplates

package template

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"
)

// Program is a compiled template. It is immutable and safe for concurrent use.
type Program struct {
	run    code
	opts   Options
	text   source
	places []textRange
	root   place // of the whole
	reads  HeaderReads
}

// Headers returns which headers the program may read.
func (p *Program) Headers() HeaderReads { return p.reads }

// header notes a call of Header with a constant name, which is empty for the object of all.
func (r *HeaderReads) header(name string) {
	if name == "" {
		r.All = true
		return
	}
	r.Names = append(r.Names, name)
}

// call notes a function of the event whose arguments are not known.
func (r *HeaderReads) call(name string) { r.All = r.All || name == "Header" || name == "HeaderStr" }

// largeBody is the size from which an evaluation takes a slot. Below it the budget has hardly grown.
const largeBody = 64 << 10

// withDefaults gives the budget for a body of size bytes. It grows with bodies up to 1 MiB.
func (b Budget) withDefaults(size int) Budget {
	size = min(size, 1<<20)
	return Budget{
		Steps:  cmp.Or(b.Steps, 200_000+2*size),
		Depth:  cmp.Or(b.Depth, 500),
		Memory: cmp.Or(b.Memory, 8<<20+64*size),
		Output: cmp.Or(b.Output, 1536<<10),
	}
}

// The functions of the event are declared to the parser before the user's text, on separate lines.
const (
	prelude      = "local Ip=0,Body=0,BodyStr=0,Header=0,HeaderStr=0,Now=0;\n"
	preludeLines = 1
)

// Compile parses, checks and compiles a program. What the text alone shows to be wrong is found here: syntax, unknown
// variables and members of std, names that are declared twice, wrong arguments of the functions of the event and of std,
// malformed constant paths and time formats, import, std.extVar and std.native. All faults are returned, but a syntax error hides
// the others. A text that is empty, longer than [MaxLength], or nests brackets deeper than 200 levels is refused before it is
// parsed, so untrusted text is safe.
func Compile(content string, opts Options) (*Program, []*Fault) {
	text := source(content)
	if fault := text.limits(); fault != nil {
		return nil, []*Fault{fault}
	}
	root, err := parseTemplate(content)
	if err != nil {
		return nil, []*Fault{text.fault(err)}
	}
	c := &compiler{compat: opts.Compat, source: text}
	body := root.(*ast.Local).Body
	e, whole := c.node(body, nil), c.place(body)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	if e.height > maxHeight/4 {
		return nil, []*Fault{{1, 1, "the expressions are nested too deep"}}
	}
	return &Program{run: e.run, opts: opts, text: text, places: c.places, root: whole, reads: c.reads}, nil
}

// parseTemplate parses the text. The parser stops at the first unknown variable. parseTemplate declares it and parses again, so
// that the compiler can report all unknown variables and all other faults.
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

// source is the user's text.
type source string

// at makes a fault at a place that the parser gave.
func (s source) at(loc ast.Location, msg string) *Fault { return s.faultAt(s.offset(loc), msg) }

func (s source) faultAt(offset int, msg string) *Fault {
	before := string(s[:offset])
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &Fault{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(line), msg}
}

// offset returns where a place of the parser is, which counts lines with the prelude and bytes in a line.
func (s source) offset(loc ast.Location) int {
	at := 0
	for range loc.Line - preludeLines - 1 {
		i := strings.IndexByte(string(s[at:]), '\n')
		if i < 0 {
			return len(s)
		}
		at += i + 1
	}
	return min(at+max(loc.Column-1, 0), len(s))
}

// fault takes the place out of an error of the parser.
func (s source) fault(err error) *Fault {
	msg := err.Error()
	var located interface{ Loc() ast.LocationRange }
	if !errors.As(err, &located) {
		return &Fault{0, 0, msg + "; correct the jsonnet"}
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
	return s.at(begin, strings.TrimSuffix(msg, ".")+"; correct the jsonnet at this place")
}

// machines are shared by all programs. A machine is reset before each evaluation.
var machines = sync.Pool{New: func() any { return new(machine) }}

// Append evaluates the program and appends its value to dst as compact JSON, or as plain text when raw is set and the value
// is a string. When it fails it returns dst as it was. dst must not overlap the texts of the event. Over a large body it waits
// for a slot, see [Slots].
func (p *Program) Append(dst []byte, ev Event, raw bool) (out []byte, fail *Error) {
	if p.opts.Slots != nil && ev.Size() >= largeBody {
		p.opts.Slots <- struct{}{}
		defer func() { <-p.opts.Slots }()
	}
	m := machines.Get().(*machine)
	budget := p.opts.Budget.withDefaults(ev.Size())
	m.reset(ev, p.opts.Compat, budget)
	m.at = p.root
	defer func() {
		if e := recover(); e != nil {
			out, fail = dst, asError(e)
			if m.at > 0 {
				fail.At = p.text.spot(p.places[m.at-1])
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
	limit := len(dst) + budget.Output
	if raw && v.kind == kindString {
		out = append(dst, v.str...)
	} else {
		w := writer{m: m, verbatim: !p.opts.Compat, limit: limit, unit: "output"}
		out = w.value(dst, v)
	}
	if len(out) > limit {
		m.exceed("bytes of output", budget.Output)
	}
	return out, nil
}

// asError turns a recovered panic into a failure. Anything but an *Error is a defect of this package or of a library, but must
// not end the process.
func asError(e any) *Error {
	if fail, ok := e.(*Error); ok {
		return fail
	}
	return &Error{Err: fmt.Errorf("internal error: %v", e)}
}
