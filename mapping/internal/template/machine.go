//go:build !forebay_notemplates

package template

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// machine evaluates one template for one record. Machines are reused. release runs after each evaluation, however it ended, and
// reset before it, so nothing but spare capacity survives.
type machine struct {
	event  Event
	compat bool
	budget Budget

	left   int64 // ticks
	memory int   // left
	depth  int
	at     place // the expression that is being evaluated
	height int   // Go stack in use, counted in nested expressions

	// buf is where strings are made. Strings point into it, so an evaluation only appends to it.
	buf []byte
	// long is where a text grows by additions to its end. Other texts that are made meanwhile go to buf, so it can grow in place.
	long []byte
	// indexed are the last long texts whose characters were asked for.
	indexed  [keptTexts]textIndex
	nextText int
	// bodyStr and headerStr are the values of these functions of the event, null if they were not called.
	bodyStr, headerStr value
	known              bool // one of these, or of indexed, is set

	tail tailCall
	std  *object
	busy thunk // stands for an element that is being made, see generator

	spare []*env // scopes of finished calls, for the next ones
	// stack holds the arguments of calls that do not keep them. A call takes slots at its end and gives them back.
	stack []value
}

type tailCall struct {
	fn *function
	e  *env
}

// maxHeight bounds the Go stack of one evaluation, as the number of nested expressions of all nested calls. An expression takes
// about 200 bytes.
const maxHeight = 200_000

func (m *machine) reset(ev Event, compat bool, b Budget) {
	m.event, m.compat, m.budget = ev, compat, b
	m.left, m.memory, m.depth, m.height, m.at = int64(b.Steps)*ticksAStep, b.Memory, 0, 0, 0
	m.busy.busy = true
	m.buf, m.long = tape.Keep(m.buf), tape.Keep(m.long)
}

// release drops the references of the evaluation, so that a pooled machine keeps no record alive and the next evaluation can
// reuse the memory of its texts. After a failure the stack still holds the arguments of unfinished calls.
func (m *machine) release(failed bool) {
	m.event, m.tail, m.std = nil, tailCall{}, nil
	if m.known { // rare
		m.bodyStr, m.headerStr, m.indexed, m.nextText, m.known = null, null, [keptTexts]textIndex{}, 0, false
	}
	if failed {
		m.stack = nil
	}
}

// push takes n slots of the stack. A full stack is replaced by a larger one. Slots in use stay where they are.
func (m *machine) push(n int) []value {
	if len(m.stack)+n > cap(m.stack) {
		m.stack = make([]value, 0, max(32, 2*cap(m.stack)+n))
	}
	from := len(m.stack)
	m.stack = m.stack[:from+n]
	return m.stack[from : from+n : from+n]
}

// pop gives back slots, where before is the stack as it was before the push. If the stack was replaced in between, the slots belong
// to the old one, and the new one is empty again.
func (m *machine) pop(before, slots []value) {
	clear(slots)
	if cap(before) == cap(m.stack) {
		m.stack = before
	} else {
		m.stack = m.stack[:0]
	}
}

func (m *machine) fail(format string, args ...any) {
	panic(&Error{Kind: Failed, Err: fmt.Errorf(format, args...)})
}

func (m *machine) exceed(what string, limit int) {
	panic(&Error{Kind: Exceeded, Err: fmt.Errorf("the template needs more than %d %s", limit, what), Next: "simplify the template, send smaller bodies, or raise Options.Budget"})
}

// unreadable ends the evaluation with an error from the event.
func (m *machine) unreadable(err error) { panic(&Error{Kind: Unreadable, Err: err}) }

// ticksAStep divides a step for cheap work. A tick stands for about 10 ns, a step for 50 to 250 ns.
const ticksAStep = 16

func (m *machine) ticks(n int) {
	if m.left -= int64(n); m.left < 0 {
		m.exceed("steps", m.budget.Steps)
	}
}

func (m *machine) step(n int) {
	if m.left -= int64(n) * ticksAStep; m.left < 0 {
		m.exceed("steps", m.budget.Steps)
	}
}

// alloc charges for memory before it is taken. Large pieces also cost steps, for the time to fill them.
func (m *machine) alloc(n int) {
	if m.memory -= n; m.memory < 0 || n >= 1024 {
		m.allocMore(n)
	}
}

// allocMore is the rare part of alloc, which is inlined without it.
func (m *machine) allocMore(n int) {
	if m.memory < 0 {
		m.exceed("bytes of memory", m.budget.Memory)
	}
	m.step(n >> 10)
}

// enter and leave bound nested evaluations. After a failure leave is not called, because reset follows.
func (m *machine) enter(height int) {
	m.step(1)
	m.nest(height)
}

// nest is enter without its step.
func (m *machine) nest(height int) {
	m.depth++
	m.height += height
	if m.depth > m.budget.Depth || m.height > maxHeight {
		m.tooDeep()
	}
}

func (m *machine) tooDeep() {
	if m.depth > m.budget.Depth {
		m.exceed("nested calls or values", m.budget.Depth)
	}
	m.exceed("nested expressions", maxHeight)
}

func (m *machine) leave(height int) {
	m.depth--
	m.height -= height
}

func (m *machine) force(v value) value {
	if v.kind != kindThunk {
		return v
	}
	t, ok := v.ref.(*thunk)
	if !ok {
		g := v.ref.(*generator)
		return m.generate(g, int(v.num))
	}
	if t.done {
		return t.val
	}
	if t.busy {
		panic(&Error{Kind: Exceeded, Err: errors.New("the template has an endless recursion: a value is defined by itself")})
	}
	t.busy = true
	at := m.at
	m.enter(1)
	t.val = t.run(m, t.env)
	m.leave(1)
	m.at = at
	t.done, t.busy, t.run, t.env = true, false, nil, nil
	return t.val
}

// forceAt evaluates a slot and stores the value there.
func (m *machine) forceAt(p *value) value {
	if p.kind == kindThunk {
		*p = m.force(*p)
	}
	return *p
}

// call calls a function with arguments for its parameters in order, which may be thunks.
func (m *machine) call(f *function, args ...value) value {
	if len(args) > len(f.params) {
		m.fail("the function takes %d arguments, but got %d", len(f.params), len(args))
	}
	if f.native == nil && !f.brief {
		slots := make([]value, len(f.params))
		m.alloc(48 * len(slots))
		absent(slots[copy(slots, args):])
		return m.invoke(f, slots, false)
	}
	before := m.stack
	slots := m.push(len(f.params))
	absent(slots[copy(slots, args):])
	v := m.invoke(f, slots, false)
	m.pop(before, slots)
	return v
}

// absent marks slots that have no argument.
func absent(slots []value) {
	for i := range slots {
		slots[i] = none
	}
}

// invoke calls a function. Slots has one value for each parameter.
func (m *machine) invoke(f *function, slots []value, strict bool) value {
	if f.native != nil {
		return m.invokeNative(f, slots)
	}
	var scope *env
	if n := len(m.spare); f.brief && n > 0 {
		scope, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		m.alloc(80)
		scope = &env{}
	}
	m.bind(scope, f, slots, strict)
	brief, e := f.brief, scope
	height, at := f.height, m.at
	m.ticks(6)
	m.nest(height)
	v := f.body(m, e)
	for v.kind == kindTail {
		f, e = m.tail.fn, m.tail.e
		m.step(1)
		m.height += f.height - height
		height = f.height
		v = f.body(m, e)
	}
	m.leave(height)
	m.at = at
	if brief {
		*scope = env{}
		m.spare = append(m.spare, scope)
	}
	return v
}

// bind makes e the scope of a call of a closure.
func (m *machine) bind(e *env, f *function, slots []value, strict bool) {
	e.parent, e.slots = f.env, slots
	if f.env != nil {
		e.self, e.super = f.env.self, f.env.super
	}
	for i := range slots {
		if slots[i].kind == kindAbsent {
			p := &f.params[i]
			if p.def == nil {
				m.fail("missing argument: %s", p.name)
			}
			slots[i] = value{kind: kindThunk, ref: &thunk{run: p.def, env: e}}
		}
	}
	if strict {
		for i := range slots {
			m.forceAt(&slots[i])
		}
	}
}

func (m *machine) invokeNative(f *function, slots []value) value {
	m.ticks(6)
	m.nest(8)
	for i := range slots {
		switch {
		case slots[i].kind == kindAbsent && !f.params[i].optional:
			m.fail("missing argument: %s", f.params[i].name)
		case slots[i].kind == kindAbsent:
			slots[i] = f.params[i].val
		case !f.lazy:
			m.forceAt(&slots[i])
		}
	}
	v := f.native(m, slots)
	m.leave(8)
	return v
}

func (m *machine) typeError(v value, want kind) {
	m.fail("unexpected type %s, expected %s", kindNames[v.kind], kindNames[want])
}

// want fails for a value of another type.
func (m *machine) want(v value, k kind) {
	if v.kind != k {
		m.typeError(v, k)
	}
}

func (m *machine) boolean(v value) bool {
	m.want(v, kindBool)
	return v.num != 0
}

// float returns a number as a 64-bit float, the type that jsonnet computes with.
func (m *machine) float(v value) float64 {
	m.want(v, kindNumber)
	if v.str == "" {
		return v.num
	}
	f, err := strconv.ParseFloat(v.str, 64)
	if err != nil {
		m.fail("the number %.40s is out of the range of a 64-bit float", v.str)
	}
	return f
}

// integer returns a number that must be a 32-bit integer, like every index and count of jsonnet.
func (m *machine) integer(v value) int {
	f := m.float(v)
	if n := int(int32(f)); float64(n) == f {
		return n
	}
	m.fail("expected an integer, but got %v", f)
	return 0
}

func (m *machine) string(v value) string {
	m.want(v, kindString)
	return v.str
}

func (m *machine) object(v value) *object {
	m.want(v, kindObject)
	return v.ref.(*object)
}

func (m *machine) function(v value) *function {
	m.want(v, kindFunction)
	return v.ref.(*function)
}

// checked returns a number, and fails for NaN and infinity.
func (m *machine) checked(f float64) value {
	if math.IsNaN(f) {
		m.fail("not a number")
	}
	if math.IsInf(f, 0) {
		m.fail("overflow")
	}
	return number(f)
}

// fromDoc returns the value of a tape node. It does not look into arrays and objects.
func (m *machine) fromDoc(t *tape.Tape, at uint32) value {
	n := &t.Nodes[at]
	switch n.Kind {
	case tape.Null:
		return null
	case tape.True:
		return vTrue
	case tape.False:
		return vZero
	case tape.Number:
		v := value{kind: kindNumber, str: tape.AsString(t.Text[n.Start:n.End])}
		if m.compat {
			v = number(m.float(v))
		}
		return v
	case tape.String:
		content := t.Text[n.Start+1 : n.End-1]
		if n.Flags == 0 {
			return text(tape.AsString(content))
		}
		m.alloc(len(content))
		from := len(m.buf)
		m.buf = tape.AppendUnquoted(m.buf, content)
		return value{kind: kindString, str: tape.AsString(m.buf[from:]), num: float64(at), ref: t}
	case tape.Array:
		return value{kind: kindArray, ref: &array{form: formDoc, doc: t, node: at}}
	}
	return newObject(&docObject{doc: t, node: at})
}

// made turns the end of buf into a string.
func (m *machine) made(from int) value { return text(tape.AsString(m.buf[from:len(m.buf):len(m.buf)])) }
