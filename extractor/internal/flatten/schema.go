// Package flatten turns nested items into rows of tables. Objects become columns, lists become tables that are linked
// to their owner.
//
// A [Set] works in two passes, because the columns of a table are the union over all of its rows. First every item is
// learned, then the same items are written, in the same order.
package flatten

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// Error says that values do not fit one table.
type Error struct {
	// Table is the data type whose rows do not fit.
	Table   string
	Message string
}

func (e *Error) Error() string { return e.Message }

// shape describes the values at one place of a data type.
type shape struct {
	kind shapeKind
	// fields of an object, in the order of their first appearance.
	fields []field
	index  map[string]int
	// items of a list.
	items *shape
	// table is the name of the table for values of this shape, "" while there is none. It never changes, so that rows of
	// later runs go to the same table whatever other tables there are.
	table string
}

type field struct {
	name  string
	shape *shape
}

type shapeKind uint8

const (
	unknown shapeKind = iota // null, or nothing yet
	scalar
	object
	array
)

var kindNames = []string{"null", "scalar", "object", "list"}

// learn adds a value to the shape. path leads to it, for errors.
func (s *shape) learn(v tree.Node, path []string, nested *bool) error {
	switch v.Kind() {
	case tree.Null:
		return nil
	case tree.List:
		if s.kind != array { // a value that was single so far is a list of one
			was := *s
			*s = shape{kind: array, items: &was}
		}
		for m := range v.Each() {
			if err := s.items.learnItem(m.Value, path, nested); err != nil {
				return err
			}
		}
		return nil
	}
	if s.kind == array {
		return s.items.learnItem(v, path, nested)
	}
	return s.learnItem(v, path, nested)
}

// learnItem is learn for a value that is a column, the fields of an object, or an item of a list.
func (s *shape) learnItem(v tree.Node, path []string, nested *bool) error {
	want := scalar
	switch v.Kind() {
	case tree.Null:
		return nil
	case tree.Object:
		want = object
	case tree.List: // a list in a list is kept as JSON text
		*nested = true
	}
	if s.kind == unknown {
		s.kind = want
	}
	if s.kind != want {
		return fmt.Errorf("%q is of kind %s in one place and %s in another", strings.Join(path, "."), kindNames[s.kind], kindNames[want])
	}
	if want != object {
		return nil
	}
	for _, m := range v.Members() {
		if err := s.field(m.Key).learn(m.Value, append(path, m.Key), nested); err != nil {
			return err
		}
	}
	return nil
}

// field returns the shape of a field, a new one at the end when it is not known.
func (s *shape) field(name string) *shape {
	if s.index == nil {
		s.index = make(map[string]int)
	}
	i, ok := s.index[name]
	if !ok {
		i = len(s.fields)
		s.index[name] = i
		s.fields = append(s.fields, field{name, new(shape)})
	}
	return s.fields[i].shape
}

// eachTable calls visit with every table that has a name.
func (s *shape) eachTable(visit func(name string)) {
	if s.table != "" {
		visit(s.table)
	}
	if s.items != nil {
		s.items.eachTable(visit)
	}
	for _, f := range s.fields {
		f.shape.eachTable(visit)
	}
}

// encode and decodeShape keep a shape in the state, as a kind, and the shapes below.
func (s *shape) encode() tree.Node {
	members := []tree.Member{{Key: "kind", Value: tree.OfString(kindNames[s.kind])}}
	if s.table != "" {
		members = append(members, tree.Member{Key: "table", Value: tree.OfString(s.table)})
	}
	switch s.kind {
	case array:
		members = append(members, tree.Member{Key: "items", Value: s.items.encode()})
	case object:
		fields := make([]tree.Member, len(s.fields))
		for i, f := range s.fields {
			fields[i] = tree.Member{Key: f.name, Value: f.shape.encode()}
		}
		members = append(members, tree.Member{Key: "fields", Value: tree.OfObject(fields...)})
	}
	return tree.OfObject(members...)
}

func decodeShape(n tree.Node, depth int) (*shape, error) {
	kind, _ := n.Get("kind")
	k := slices.Index(kindNames, kind.Str())
	if k < 0 || depth > tree.MaxDepth {
		return nil, fmt.Errorf("unknown kind of column %q", kind.Text())
	}
	s := &shape{kind: shapeKind(k)}
	if table, ok := n.Get("table"); ok {
		if s.table = table.Str(); s.table == "" || s.table != SafeName(s.table) {
			return nil, fmt.Errorf("%.80q is no name of a table", table.Text())
		}
	}
	switch s.kind {
	case array:
		items, _ := n.Get("items")
		var err error
		s.items, err = decodeShape(items, depth+1)
		return s, err
	case object:
		fields, _ := n.Get("fields")
		for _, m := range fields.Members() {
			below, err := decodeShape(m.Value, depth+1)
			if err != nil {
				return nil, err
			}
			*s.field(m.Key) = *below
		}
	}
	return s, nil
}
