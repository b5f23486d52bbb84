// Package tree is JSON as the extractor needs it. Members keep their order, integers stay integers, and there are the
// texts, truth values and serialisations of the service, on which file contents and link values depend.
package tree

import (
	"context"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a [Node].
type Kind uint8

// The kinds of JSON values. A number without fraction and exponent that fits 64 bits is an Int, every other a Float. A
// Float that was read keeps digits that a float64 does not hold.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Object
)

var kindNames = [...]string{"null", "boolean", "integer", "number", "string", "list", "object"}

func (k Kind) String() string { return kindNames[k] }

// Phrase returns the kind with its article, for sentences.
func (k Kind) Phrase() string {
	switch k {
	case Null:
		return "null"
	case Int, Object:
		return "an " + kindNames[k]
	}
	return "a " + kindNames[k]
}

// Node is a JSON value. The zero Node is null. Copies of a node share the values below it. A node that was
// handed out is not modified, except by its owner through Set.
type Node struct {
	// num holds an Int, the bits of a Float, 1 for true, or the length of a List that is kept as text.
	num uint64
	// str is a String, the digits of a number that the Float in num does not hold exactly, or the JSON of a List that is
	// kept as text, in place of kids.
	str  string
	kids []Member
	kind Kind
}

// Member is a member of an object or an item of a list.
type Member struct {
	// Key is the name, or empty in a list.
	Key string
	// Value is the value.
	Value Node
}

// OfString returns a string.
func OfString(s string) Node { return Node{kind: String, str: s} }

// OfInt returns an integer.
func OfInt(i int64) Node { return Node{kind: Int, num: uint64(i)} }

// OfFloat returns a number that is no integer by its notation.
func OfFloat(f float64) Node { return Node{kind: Float, num: math.Float64bits(f)} }

// OfObject returns an object that owns the members.
func OfObject(members ...Member) Node { return Node{kind: Object, kids: members} }

// OfBool returns true or false.
func OfBool(b bool) Node {
	if b {
		return Node{kind: Bool, num: 1}
	}
	return Node{kind: Bool}
}

// OfList returns a list of items.
func OfList(items ...Node) Node {
	n := Node{kind: List, kids: make([]Member, len(items))}
	for i, item := range items {
		n.kids[i].Value = item
	}
	return n
}

// Kind returns the type of the value.
func (n Node) Kind() Kind { return n.kind }

// Int returns the value of an Int. For another kind the result has no meaning.
func (n Node) Int() int64 { return int64(n.num) }

// Float returns the value of a Float. For another kind the result has no meaning.
func (n Node) Float() float64 { return math.Float64frombits(n.num) }

// Bool returns the value of a Bool. For another kind the result has no meaning.
func (n Node) Bool() bool { return n.num != 0 }

// Str returns the value of a String, "" of another kind.
func (n Node) Str() string {
	if n.kind != String {
		return ""
	}
	return n.str
}

// Members returns the members of an object or the items of a list, whose keys are empty. The caller must not modify it.
// A list of a response may be too large for that, so use Each.
func (n Node) Members() []Member {
	if n.asText() {
		return slices.Collect(n.Each())
	}
	return n.kids
}

// asText reports whether the node is a list that is kept as text.
func (n Node) asText() bool { return n.kind == List && n.str != "" }

// Each yields the members of an object or the items of a list, whose keys are empty. Items of a list that is kept as
// text are parsed one by one, again each time.
func (n Node) Each() iter.Seq[Member] {
	return func(yield func(Member) bool) { // small enough to be inlined, so that nothing is allocated
		if n.asText() {
			n.eachOfText(yield)
			return
		}
		for i := range n.kids {
			if !yield(n.kids[i]) {
				return
			}
		}
	}
}

func (n Node) eachOfText(yield func(Member) bool) {
	p := newParser(context.Background(), n.str, keptFrom)
	p.at++
	for p.at < len(p.data) {
		p.held, p.textFrom = 0, keptFrom
		value, err := p.value(0)
		if err != nil {
			panic("tree: a list that was checked cannot be read: " + err.Error())
		}
		if !yield(Member{Value: value}) {
			return
		}
		p.peek()
		p.at++ // the comma, or the end
	}
}

// MapItems returns the list of the results of change. A list that is kept as text becomes a new text.
func (n Node) MapItems(change func(i int, item Node) (Node, error)) (Node, error) {
	out := Node{kind: List}
	var text []byte
	i := 0
	for m := range n.Each() {
		item, err := change(i, m.Value)
		if err != nil {
			return Node{}, err
		}
		if n.asText() {
			text = item.AppendJSON(append(text, ','), Exact)
		} else {
			out.kids = append(out.kids, Member{Value: item})
		}
		i++
	}
	if n.asText() {
		text[0] = '['
		out.num, out.str = n.num, string(append(text, ']'))
	}
	return out, nil
}

// Len returns the number of members or items.
func (n Node) Len() int {
	if n.asText() {
		return int(n.num)
	}
	return len(n.kids)
}

// Item returns the value of the i-th member or item. It takes time for a list that is kept as text.
func (n Node) Item(i int) Node {
	if !n.asText() {
		return n.kids[i].Value
	}
	for m := range n.Each() {
		if i--; i < 0 {
			return m.Value
		}
	}
	panic("tree: no such item")
}

// IsScalar reports whether the value is neither null nor a list nor an object.
func (n Node) IsScalar() bool { return n.kind >= Bool && n.kind <= String }

// IsCollection reports whether the value is a list or an object.
func (n Node) IsCollection() bool { return n.kind >= List }

// Get returns the member of an object, or the item of a list when key is its position in decimal digits.
func (n Node) Get(key string) (Node, bool) {
	switch n.kind {
	case Object:
		for i := range n.kids {
			if n.kids[i].Key == key {
				return n.kids[i].Value, true
			}
		}
	case List:
		if i, ok := position(key); ok && i < n.Len() {
			return n.Item(i), true
		}
	}
	return Node{}, false
}

// position reads a list position of up to nine digits; "01" and "+1" are none.
func position(s string) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && len(s) <= 9 && strconv.Itoa(i) == s
}

// At follows a path whose steps are separated by delimiter. An empty path, and one that equals the delimiter, is the
// node itself.
func (n Node) At(path, delimiter string) (Node, bool) {
	if path == "" || path == delimiter {
		return n, true
	}
	for step := range strings.SplitSeq(path, delimiter) {
		var ok bool
		if n, ok = n.Get(step); !ok {
			return Node{}, false
		}
	}
	return n, true
}

// With returns an object in which key has value, in its place when the key exists, else at the end. n stays as it is.
func (n Node) With(key string, value Node) Node {
	out := Node{kind: Object, kids: make([]Member, 0, len(n.kids)+1)}
	found := false
	for i, m := range n.Members() {
		if n.kind == List {
			m.Key = strconv.Itoa(i)
		}
		if m.Key == key {
			m.Value, found = value, true
		}
		out.kids = append(out.kids, m)
	}
	if !found {
		out.kids = append(out.kids, Member{key, value})
	}
	return out
}

// WithAll is With for all members of another object, in their order.
func (n Node) WithAll(o Node) Node {
	return Node{kind: Object, kids: merge(n.named(), o.named(), func(_, upper Node) Node { return upper })}
}

// merge lays members over others by name. It owns members, in which new names follow.
func merge(members, upper []Member, both func(lower, upper Node) Node) []Member {
	index := make(map[string]int, len(members))
	for i, m := range members {
		index[m.Key] = i
	}
	for _, m := range upper {
		if i, ok := index[m.Key]; ok {
			members[i].Value = both(members[i].Value, m.Value)
		} else {
			members = append(members, m)
		}
	}
	return members
}

// A Cursor finds members of one object by name. It takes constant time for names in the order of the object, and for
// others after the first of them.
type Cursor struct {
	kids  []Member
	next  int
	index map[string]int
}

// Cursor returns a cursor before the first member. In a node that is no object it finds nothing.
func (n Node) Cursor() Cursor {
	if n.kind != Object {
		return Cursor{}
	}
	return Cursor{kids: n.kids}
}

// Get returns the member with a name, or null.
func (c *Cursor) Get(key string) Node {
	if c.next < len(c.kids) && c.kids[c.next].Key == key {
		c.next++
		return c.kids[c.next-1].Value
	}
	at := -1
	if len(c.kids) < manyMembers {
		at = slices.IndexFunc(c.kids, func(m Member) bool { return m.Key == key })
	} else {
		if c.index == nil {
			c.index = make(map[string]int, len(c.kids))
			for i := range c.kids {
				c.index[c.kids[i].Key] = i
			}
		}
		if i, ok := c.index[key]; ok {
			at = i
		}
	}
	if at < 0 {
		return Node{}
	}
	c.next = at + 1
	return c.kids[at].Value
}

// Replace returns a copy in which by stands in the place of list, and whether list was found. It must be the very list, below n or n itself,
// and not one that is only equal. An empty list is never found, and nothing is in a list that is kept as text.
func (n Node) Replace(list, by Node) (Node, bool) {
	if n.kind == List && n.Len() == list.Len() && n.Len() > 0 && n.str == list.str && (n.asText() || &n.kids[0] == &list.kids[0]) {
		return by, true
	}
	for i := range n.kids {
		if value, ok := n.kids[i].Value.Replace(list, by); ok {
			n.kids = slices.Clone(n.kids)
			n.kids[i].Value = value
			return n, true
		}
	}
	return n, false
}

// Without returns the object without a member.
func (n Node) Without(key string) Node {
	out := Node{kind: Object, kids: make([]Member, 0, len(n.kids))}
	for _, m := range n.kids {
		if m.Key != key {
			out.kids = append(out.kids, m)
		}
	}
	return out
}

// Overlay lays upper over n. Members of objects are merged by name and items of lists by position, at every depth. An
// upper value of another kind replaces the lower one. Names of n come first. A list meets an object under its
// positions as names.
func (n Node) Overlay(upper Node) Node {
	out := Node{kind: Object, kids: merge(n.named(), upper.named(), func(lower, upper Node) Node {
		if lower.IsCollection() && upper.IsCollection() {
			return lower.Overlay(upper)
		}
		return upper
	})}
	if n.kind == List && (upper.kind == List || upper.Len() == 0) {
		out.kind = List
		for i := range out.kids {
			out.kids[i].Key = ""
		}
	}
	return out
}

// named returns a copy of the members, items of a list under their positions.
func (n Node) named() []Member {
	out := append([]Member(nil), n.Members()...)
	if n.kind == List {
		for i := range out {
			out[i].Key = strconv.Itoa(i)
		}
	}
	return out
}

// Named returns the collection as an object, a list under its positions. What is no collection gives an empty object.
func (n Node) Named() Node { return Node{kind: Object, kids: n.named()} }

// Equal reports whether two values are the same, with the same kinds and the same members in the same order.
func (n Node) Equal(o Node) bool {
	if n.kind != o.kind {
		return false
	}
	if !n.IsCollection() {
		return n.num == o.num && n.str == o.str
	}
	return slices.EqualFunc(n.Members(), o.Members(), func(a, b Member) bool { return a.Key == b.Key && a.Value.Equal(b.Value) })
}

// Empty reports whether the service counts the value as empty: null, false, zero, "", "0" and the empty list. An empty
// object is not.
func (n Node) Empty() bool {
	switch n.kind {
	case Null:
		return true
	case Bool, Int:
		return n.num == 0
	case Float:
		return n.Float() == 0
	case String:
		return n.str == "" || n.str == "0"
	case List:
		return n.Len() == 0
	}
	return false
}

// Leaves calls visit with every value that is no collection, and its path of keys and positions joined by dots.
func (n Node) Leaves(visit func(path string, leaf Node)) { n.leaves("", visit) }

func (n Node) leaves(path string, visit func(string, Node)) {
	if !n.IsCollection() {
		visit(path, n)
		return
	}
	i := 0
	for m := range n.Each() {
		key := m.Key
		if n.kind == List {
			key = strconv.Itoa(i)
		}
		if path != "" {
			key = path + "." + key
		}
		m.Value.leaves(key, visit)
		i++
	}
}
