package mapping

import "github.com/forebay/forebay/mapping/internal/tape"

// FieldPath is the parsed path of a field in a body. It is immutable. The zero value is the whole body.
type FieldPath struct{ path tape.Path }

// ParsePath parses a path. The syntax:
//
//	a.b          member b of member a; empty names are skipped, so a..b and a.b. mean the same
//	a[0].b       element 0 of the array a; indexes count from 0, there are no negative ones
//	["a.b"].c    a quoted key: any text, with the escapes of JSON strings; single quotes do as well
//	a\.b         a backslash takes the next character as it is: the key "a.b"
//
// A name of digits also means an element of an array (a.0 is a[0]), and an index also means the member with these
// digits of an object. A quoted key only means a member. The empty path is the whole body.
// The error of a malformed path describes the fault and its place.
func ParsePath(s string) (FieldPath, error) {
	p, err := tape.ParsePath(s, false)
	return FieldPath{p}, err
}

// String returns the path as it was given to [ParsePath].
func (p FieldPath) String() string { return p.path.Text }

// Len returns the number of steps: 0 means the whole body.
func (p FieldPath) Len() int { return len(p.path.Steps) }

// Step returns step i. From an object it goes to the member key, from an array to the element index, and index is -1 when
// the step never means an element.
func (p FieldPath) Step(i int) (key string, index int) {
	return p.path.Steps[i].Key, p.path.Steps[i].Index
}

// From returns the path without its first n steps, for a value that those lead to.
func (p FieldPath) From(n int) FieldPath {
	return FieldPath{tape.Path{Text: p.path.Text, Steps: p.path.Steps[n:]}}
}
