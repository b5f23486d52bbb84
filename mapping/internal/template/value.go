//go:build !forebay_notemplates

package template

// kind is the type of a jsonnet value.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
	kindFunction
	kindThunk  // not evaluated yet, and operations never see it
	kindTail   // a tailstrict call that the caller must make, see machine.tail
	kindAbsent // an argument that was not given
)

var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object", "function", "thunk", "tail call", "absent"}

// value is a jsonnet value. It never changes. Data it refers to changes only to cache the result of an evaluation.
type value struct {
	kind kind
	// num is the number, 1 or 0 for a boolean, the node on the tape for a string that has a ref, or the position for an element
	// whose ref is a *generator.
	num float64
	// str is the text of a string. For a number that came out of a record it is the number as it was written there,
	// and num is not set. See machine.float.
	str string
	// ref is an *array, *object or *function. For kindThunk it is a *thunk or *generator, for a string the *tape.Tape that it was
	// read from, if its text there is not just str in quotes.
	ref any
}

var (
	null  = value{}
	vTrue = value{kind: kindBool, num: 1}
	vZero = value{kind: kindBool}
)

func number(f float64) value { return value{kind: kindNumber, num: f} }
func text(s string) value    { return value{kind: kindString, str: s} }

func boolean(b bool) value {
	if b {
		return vTrue
	}
	return vZero
}

// code is a compiled expression. It gives a value, or panics with a *cause.
type code func(m *machine, e *env) value

// env holds the variables of one scope, which is a call, a local, or the locals of an object.
type env struct {
	parent *env
	slots  []value
	// self is the object around the expression, nil outside of objects, and super the number of layers of it that
	// super skips.
	self  *object
	super int
}

// thunk is an expression that is evaluated at most once, when its value is asked for.
type thunk struct {
	run  code
	env  *env
	val  value
	busy bool
	done bool
}

// manyWalks is how many elements or members are passed before an array or object of a record is indexed. Without an index a
// program that reads all of them would take quadratic time.
const manyWalks = 256

// function is a closure, or a function written in Go.
type function struct {
	params []param
	// closure
	body   code
	env    *env
	height int
	// brief says that nothing refers to the scope after the call, so the next call reuses it.
	brief bool
	// written in Go, gets one value for each parameter, evaluated unless lazy is set
	native func(m *machine, args []value) value
	lazy   bool
}

type param struct {
	name     string
	optional bool
	def      code  // default of a closure, evaluated in the scope of the body
	val      value // default of a Go function
}
