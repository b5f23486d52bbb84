package extractor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// dataField says where the items of a page are. Without a path they are looked for.
type dataField struct {
	path, delimiter string
}

func parseDataField(s *section) dataField {
	n, ok := s.get("dataField")
	if !ok {
		return dataField{}
	}
	df := dataField{delimiter: "."}
	if n.Kind() == tree.Object {
		below := s.section("dataField")
		df.path = below.required("path")
		df.delimiter = cmp.Or(below.text("delimiter", ""), ".")
		below.done()
		return df
	}
	if path := s.text("dataField", ""); path != "0" {
		df.path = path
	}
	return df
}

// find finds the items of a page.
func (df dataField) find(p *page) {
	if p.blank {
		p.items = tree.OfList()
		return
	}
	p.items, p.warning, p.problem = df.items(p.response)
	if n, ok := p.response.At(df.path, df.delimiter); df.path != "" {
		p.single = ok && n.Kind() != tree.List
	}
}

// items finds the items of a response. The warning says why there are none although the response has content.
func (df dataField) items(response tree.Node) (items tree.Node, warning string, err error) {
	nothing := tree.OfList()
	if df.path != "" {
		n, ok := response.At(df.path, df.delimiter)
		switch {
		case n.Kind() == tree.List:
			return n, "", nil
		case !ok || n.Empty():
			return nothing, fmt.Sprintf("no data at %q in the response", df.path), nil
		}
		return tree.OfList(n), "", nil
	}
	switch response.Kind() {
	case tree.List:
		return response, "", nil
	case tree.Object:
	default:
		return nothing, "", fmt.Errorf("the response is %s, a list or an object is expected", response.Kind().Phrase())
	}
	var names []string
	var found tree.Node
	for _, m := range response.Members() {
		if m.Value.Kind() == tree.List {
			names = append(names, m.Key)
			found = m.Value
		}
	}
	switch len(names) {
	case 0:
		return nothing, "the response has no list; name one in dataField", nil
	case 1:
		return found, "", nil
	}
	const shown = 10
	more := ""
	if len(names) > shown {
		names, more = names[:shown], fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return nothing, "", fmt.Errorf("the response has several lists, name one of them in dataField: %s%s", strings.Join(names, ", "), more)
}

func list(n tree.Node) []tree.Node {
	items := make([]tree.Node, n.Len())
	for i := range items {
		items[i] = n.Item(i)
	}
	return items
}

// filterItem replaces the value at a path by its JSON text. A step that ends with "[]" goes into each item of a list.
func filterItem(n tree.Node, steps []string) (tree.Node, error) {
	if n.Kind() != tree.Object {
		return n, nil
	}
	key, each := strings.CutSuffix(steps[0], "[]")
	value, ok := n.Get(key)
	if !ok {
		return n, nil
	}
	change := func(v tree.Node) (tree.Node, error) {
		if len(steps) == 1 {
			return tree.OfString(string(v.AppendJSON(nil, tree.Escaped))), nil
		}
		return filterItem(v, steps[1:])
	}
	if !each {
		value, err := change(value)
		return n.With(key, value), err
	}
	if value.Kind() != tree.List {
		return n, fmt.Errorf("responseFilter: %q is %s, a list is expected", key, value.Kind().Phrase())
	}
	value, err := value.MapItems(func(_ int, item tree.Node) (tree.Node, error) { return change(item) })
	if err != nil {
		return n, err
	}
	return n.With(key, value), nil
}

func (j *jobConfig) filtered(item tree.Node) (tree.Node, error) {
	for _, f := range j.filters {
		var err error
		if item, err = filterItem(item, strings.Split(f, j.delimiter)); err != nil {
			return item, err
		}
	}
	return item, nil
}

// itemFilter is a recursionFilter, with comparisons joined by "&", and such groups joined by "|".
type itemFilter struct {
	any [][]comparison
}

type comparison struct {
	path, operator, value string
}

var operators = []string{"==", "!=", ">=", "<=", "~~", "!~", ">", "<"}

func parseItemFilter(text string) (*itemFilter, error) {
	f := new(itemFilter)
	for all := range strings.SplitSeq(text, "|") {
		var joined []comparison
		for part := range strings.SplitSeq(all, "&") {
			c, ok := parseComparison(part)
			if !ok {
				return nil, fmt.Errorf("%q is no comparison; write path, one of %s, and value", part, strings.Join(operators, " "))
			}
			joined = append(joined, c)
		}
		f.any = append(f.any, joined)
	}
	return f, nil
}

func parseComparison(s string) (comparison, bool) {
	for i := 1; i < len(s); i++ {
		for _, op := range operators {
			if strings.HasPrefix(s[i:], op) {
				return comparison{s[:i], op, s[i+len(op):]}, true
			}
		}
	}
	return comparison{}, false
}

// matches reports whether children are to be run for an item. A nil filter accepts all.
func (f *itemFilter) matches(item tree.Node) bool {
	if f == nil {
		return true
	}
	return slices.ContainsFunc(f.any, func(all []comparison) bool {
		return !slices.ContainsFunc(all, func(c comparison) bool { return !c.matches(item) })
	})
}

func (c comparison) matches(item tree.Node) bool {
	n, _ := item.At(c.path, ".")
	text := n.Text()
	if strings.Contains(c.operator, "~") {
		return like(text, c.value) == (c.operator == "~~")
	}
	if c.operator == "==" || c.operator == "!=" {
		return (text == c.value) == (c.operator == "==")
	}
	order, ok := tree.CompareDigits(text, c.value)
	if !ok {
		order = strings.Compare(text, c.value)
	}
	switch c.operator {
	case ">":
		return order > 0
	case "<":
		return order < 0
	case ">=":
		return order >= 0
	}
	return order <= 0
}

// like matches a pattern in which "%" stands for any text.
func like(text, pattern string) bool {
	parts := strings.Split(pattern, "%")
	if len(parts) == 1 {
		return text == pattern
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}
