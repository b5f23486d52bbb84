package mapping

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// Bounds of a form. A small body can ask for much. For example, a[99999999]=x means an array with gaps.
const (
	maxFormNodes = 100_000 // values, gaps of arrays included
	maxFormDepth = 32      // brackets after one name
)

// formNode is a text, an array or an object of a form.
type formNode struct {
	kind  tape.Kind // tape.Null for a gap, tape.String, tape.Array or tape.Object
	text  string
	keys  []string       // of an object, in order of appearance
	index map[string]int // of an object
	items []*formNode    // elements or values
}

type formParser struct {
	nodes  int
	strict bool // refuse the names that the published service refuses
}

// appendForm appends a form (application/x-www-form-urlencoded) as a JSON object. a[]=1 appends to an array, a[2]=1
// sets an element (gaps are null), a[k]=1 sets a member. A name that comes again replaces the earlier value. All values are texts and keep the
// order in which their names first appeared. Bytes that are not UTF-8 stay as they are, for the columns to judge. With compat, texts have the
// escapes of the published service, and input that it refuses is an error: a pair without a name, a semicolon, a bracket that is not closed,
// and members of a name that has a text. Without compat a semicolon is data, as the URL standard requires.
func appendForm(dst, body []byte, compat bool) ([]byte, error) {
	p := formParser{strict: compat}
	root := &formNode{kind: tape.Object}
	for rest := string(body); rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if pair == "" {
			continue
		}
		at := len(body) - len(rest) - len(pair)
		if compat && strings.Contains(pair, ";") {
			return nil, errors.New("the body is not a valid form: semicolon in a pair; write it as %3B")
		}
		k, v, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(k)
		if err == nil {
			v, err = url.QueryUnescape(v)
		}
		if err != nil {
			return nil, fmt.Errorf("the body is not a valid form: invalid %%-escape in the pair near byte %d", at)
		}
		if err := p.set(root, name, v); err != nil {
			return nil, err
		}
	}
	return root.appendJSON(dst, compat), nil
}

func (p *formParser) set(root *formNode, name, value string) error {
	base, brackets := splitFormName(name)
	if len(brackets) > maxFormDepth {
		return fmt.Errorf("the body is not a valid form: a name has more than %d brackets", maxFormDepth)
	}
	if p.strict && (name == "" || brackets == nil && strings.IndexByte(name, '[') > 0) {
		return fmt.Errorf("the body is not a valid form: malformed name %.100q", name)
	}
	at, err := p.member(root, base)
	for i := 0; err == nil && i < len(brackets); i++ {
		at, err = p.child(at, brackets[i])
	}
	if err != nil {
		return err
	}
	*at = formNode{kind: tape.String, text: value}
	return nil
}

// splitFormName splits a[b][c] into a and [b c]. A name whose brackets are not balanced is a name as it stands.
func splitFormName(name string) (base string, brackets []string) {
	i := strings.IndexByte(name, '[')
	if i <= 0 || !strings.HasSuffix(name, "]") {
		return name, nil
	}
	brackets = strings.Split(name[i+1:len(name)-1], "][")
	for _, b := range brackets {
		if strings.ContainsAny(b, "[]") {
			return name, nil
		}
	}
	return name[:i], brackets
}

func (p *formParser) child(n *formNode, key string) (*formNode, error) {
	index := tape.ArrayIndex(key)
	switch {
	case n.kind == tape.String && p.strict:
		return nil, fmt.Errorf("the body is not a valid form: a name has both a text and members: %.100q", n.text)
	case n.kind == tape.Array && key == "":
		index = len(n.items)
	case n.kind == tape.Array && index < 0:
		n.toObject()
	case n.kind == tape.Array:
	case n.kind == tape.Object && key == "":
		key = strconv.Itoa(len(n.items))
	case n.kind == tape.Object:
	case key == "":
		*n = formNode{kind: tape.Array}
		index = 0
	case index >= 0:
		*n = formNode{kind: tape.Array}
	default:
		*n = formNode{kind: tape.Object}
	}
	if n.kind == tape.Object {
		return p.member(n, key)
	}
	for len(n.items) <= index {
		if err := p.count(); err != nil {
			return nil, err
		}
		n.items = append(n.items, &formNode{})
	}
	return n.items[index], nil
}

func (p *formParser) member(n *formNode, key string) (*formNode, error) {
	if i, ok := n.index[key]; ok {
		return n.items[i], nil
	}
	if err := p.count(); err != nil {
		return nil, err
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	m := &formNode{}
	n.index[key] = len(n.items)
	n.keys, n.items = append(n.keys, key), append(n.items, m)
	return m, nil
}

func (p *formParser) count() error {
	if p.nodes++; p.nodes > maxFormNodes {
		return fmt.Errorf("the body is not a valid form: more than %d values, gaps of arrays included", maxFormNodes)
	}
	return nil
}

// toObject turns an array into an object whose keys are the indexes, for a form that uses both kinds of brackets.
func (n *formNode) toObject() {
	n.kind, n.index = tape.Object, make(map[string]int, len(n.items))
	for i := range n.items {
		key := strconv.Itoa(i)
		n.keys = append(n.keys, key)
		n.index[key] = i
	}
}

func (n *formNode) appendJSON(dst []byte, html bool) []byte {
	switch n.kind {
	case tape.String:
		return jsontext.AppendRaw(dst, n.text, html)
	case tape.Array:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst, html)
		}
		return append(dst, ']')
	case tape.Object:
		dst = append(dst, '{')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendRaw(dst, n.keys[i], html)
			dst = append(dst, ':')
			dst = item.appendJSON(dst, html)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}
