package extractor

import (
	"encoding/json"
	"fmt"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// publishedColumns is the name under which the state of the published extractor has the columns of all tables. State.Columns has it in place of the
// buckets until a run has written its tables.
const publishedColumns = "json_parser.struct"

// UnmarshalJSON reads a state, or a state that the published extractor wrote. There, the columns and the time are at the root or in "custom".
func (s *State) UnmarshalJSON(data []byte) error {
	type plain State
	type published struct {
		Time    StateTime       `json:"time"`
		Columns json.RawMessage `json:"json_parser.struct"`
	}
	var old struct {
		published
		Custom published `json:"custom"`
	}
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if json.Unmarshal(data, &old) != nil {
		return nil // members of the same names that are something else
	}
	for _, p := range []published{old.published, old.Custom} {
		if len(s.Columns) == 0 && len(p.Columns) > 0 {
			s.Columns = fmt.Appendf(nil, "{%q:%s}", publishedColumns, p.Columns)
		}
		if s.Time.PreviousStart == 0 {
			s.Time = p.Time
		}
	}
	return nil
}

// knownColumns returns the columns of a state for a bucket, in the form of the set of its tables, and the paths of the columns that are not understood.
func knownColumns(state tree.Node, bucket string) (types tree.Node, unknown []string) {
	old, ok := state.Get(publishedColumns)
	if !ok {
		types, _ = state.Get(bucket)
		return types, nil
	}
	r := oldReader{flat: old}
	types = tree.OfObject()
	if data, ok := old.Get("data"); ok && data.Kind() == tree.Object {
		for _, m := range data.Members() {
			if name, ok := trimOne(m.Key, '_'); ok {
				r.add(&types, name, r.items(name, m.Value))
			}
		}
		return types, r.unknown
	}
	below := make(map[string]bool) // the objects and lists in other types
	for _, m := range old.Members() {
		for _, f := range m.Value.Members() {
			if f.Value.Str() != "scalar" {
				below[m.Key+"."+f.Key] = true
			}
		}
	}
	for _, m := range old.Members() {
		if !below[m.Key] {
			r.add(&types, m.Key, r.flatObject(m.Key, 0))
		}
	}
	return types, r.unknown
}

func trimOne(s string, c byte) (string, bool) {
	if s == "" || s[0] != c {
		return s, false
	}
	return s[1:], true
}

// An oldReader translates the columns of the published extractor. Newer versions wrote a tree, with an object for each value with its kind in
// "nodeType", its fields as "_name", and the items of a list as "[]". Older versions wrote one object of names and kinds for each path.
type oldReader struct {
	flat    tree.Node
	unknown []string
}

// add adds a column or type unless it is not understood.
func (r *oldReader) add(to *tree.Node, name string, shape tree.Node) {
	if shape.Kind() == tree.Object {
		*to = to.With(name, shape)
	}
}

func shapeOf(kind string, more ...tree.Member) tree.Node {
	return tree.OfObject(append([]tree.Member{{Key: "kind", Value: tree.OfString(kind)}}, more...)...)
}

// items returns the shape of the items of a type, which is a list.
func (r *oldReader) items(path string, n tree.Node) tree.Node {
	if items, ok := n.Get("[]"); ok {
		return r.node(path, items, 0)
	}
	return r.node(path, n, 0)
}

func (r *oldReader) node(path string, n tree.Node, depth int) tree.Node {
	kind, _ := n.Get("nodeType")
	switch {
	case depth > tree.MaxDepth:
	case kind.Str() == "scalar" || kind.Str() == "null":
		return shapeOf(kind.Str())
	case kind.Str() == "array":
		items, ok := n.Get("[]")
		if !ok {
			return shapeOf("list", tree.Member{Key: "items", Value: shapeOf("null")})
		}
		if below := r.node(path+"[]", items, depth+1); below.Kind() == tree.Object {
			return shapeOf("list", tree.Member{Key: "items", Value: below})
		}
		return tree.Node{}
	case kind.Str() == "object":
		fields := tree.OfObject()
		for _, m := range n.Members() {
			name, isField := trimOne(m.Key, '_')
			// The columns of user data and links to parents are not columns of the items.
			if origin, _ := m.Value.Get("type"); isField && origin.Str() != "parent" {
				r.add(&fields, name, r.node(path+"."+name, m.Value, depth+1))
			}
		}
		return shapeOf("object", tree.Member{Key: "fields", Value: fields})
	}
	r.unknown = append(r.unknown, path)
	return tree.Node{}
}

func (r *oldReader) flatObject(path string, depth int) tree.Node {
	fields := tree.OfObject()
	own, _ := r.flat.Get(path)
	for _, m := range own.Members() {
		r.add(&fields, m.Key, r.flatField(path+"."+m.Key, m.Value.Str(), depth+1))
	}
	return shapeOf("object", tree.Member{Key: "fields", Value: fields})
}

func (r *oldReader) flatField(path, kind string, depth int) tree.Node {
	list := func(items tree.Node) tree.Node { return shapeOf("list", tree.Member{Key: "items", Value: items}) }
	switch {
	case depth > tree.MaxDepth:
	case kind == "scalar" || kind == "string" || kind == "integer" || kind == "double" || kind == "boolean":
		return shapeOf("scalar")
	case kind == "NULL" || kind == "null":
		return shapeOf("null")
	case kind == "object":
		return r.flatObject(path, depth)
	case kind == "arrayOfscalar":
		return list(shapeOf("scalar"))
	case kind == "arrayOfobject":
		return list(r.flatObject(path, depth))
	case kind == "array":
		own, ok := r.flat.Get(path)
		if !ok {
			return list(shapeOf("null"))
		}
		if data, ok := own.Get("data"); ok && own.Len() == 1 {
			return list(r.flatField(path+".data", data.Str(), depth+1))
		}
		return list(r.flatObject(path, depth))
	}
	r.unknown = append(r.unknown, path)
	return tree.Node{}
}
