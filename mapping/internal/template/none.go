//go:build forebay_notemplates

package template

// Program is a compiled template. There is none in a program that was built without templates.
type Program struct{}

// Compile refuses each text.
func Compile(string, Options) (*Program, []*Fault) {
	return nil, []*Fault{{Msg: "this program was built without templates: build it without the tag forebay_notemplates"}}
}

// Headers returns nothing, because Compile makes no program.
func (*Program) Headers() HeaderReads { return HeaderReads{} }

// Append is never called, because Compile makes no program.
func (*Program) Append(dst []byte, _ Event, _ bool) ([]byte, *Error) { return dst, &Error{} }
