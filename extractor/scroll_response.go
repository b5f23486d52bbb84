package extractor

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// urlScroller follows links in the answers: method response.url. It ends with an answer without a link.
type urlScroller struct {
	urlKey, delimiter string
	isQuery, include  bool

	next string // "" on the first page
}

func parseResponseURL(s *section) func() scroller {
	configured := urlScroller{
		urlKey: s.text("urlKey", "next_page"), delimiter: cmp.Or(s.text("delimiter", ""), "."),
		isQuery: s.boolean("paramIsQuery", false), include: s.boolean("includeParams", false),
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *urlScroller) call(base apiCall, pl *plan) (apiCall, error) {
	if sc.next == "" {
		return base, nil
	}
	if !sc.include {
		base.params = tree.OfObject()
	}
	if sc.isQuery {
		base.params = base.params.WithAll(nest(parseQuery(strings.TrimPrefix(sc.next, "?"))))
		return base, nil
	}
	// A relative link is relative to the URL of the endpoint.
	from, err := resolve(pl.baseURL, base.endpoint)
	if err != nil {
		return base, err
	}
	to, err := resolve(from, sc.next)
	if err != nil {
		return base, fmt.Errorf("the link at %q in the answer: %w", sc.urlKey, err)
	}
	base.endpoint = to.String()
	return base, nil
}

func (sc *urlScroller) advance(_ apiCall, p *page) (bool, error) {
	n, _ := p.response.At(sc.urlKey, sc.delimiter)
	if n.Empty() {
		return false, nil
	}
	if n.IsCollection() {
		return false, fmt.Errorf("the value at %q in the answer must be a link, not %s", sc.urlKey, n.Kind().Phrase())
	}
	sc.next = n.Text()
	return true, nil
}

func (sc *urlScroller) position() tree.Node { return tree.OfString(sc.next) }

func (sc *urlScroller) resume(n tree.Node) { sc.next = n.Str() }

// nest makes parameters of the pairs of a query: "a[b]=1" is an object, "a[]=1" a list. Of equal names the last counts.
func nest(pairs []pair) tree.Node {
	root := new(nested)
	for _, p := range pairs {
		name, rest, bracketed := strings.Cut(p.name, "[")
		if !bracketed || name == "" || !strings.HasSuffix(rest, "]") || strings.Count(rest, "][") >= maxNesting {
			root.below(p.name).set(p.value)
			continue
		}
		at := root.below(name)
		for key := range strings.SplitSeq(strings.TrimSuffix(rest, "]"), "][") {
			at = at.below(key)
		}
		at.set(p.value)
	}
	return root.node()
}

// maxNesting bounds the brackets of a name; one with more stands for itself.
const maxNesting = 64

// nested is a parameter that is being gathered: text, or members in the order of their appearance.
type nested struct {
	text    string
	isText  bool
	keys    []string
	members map[string]*nested
}

func (n *nested) set(text string) { *n = nested{text: text, isText: true} }

// below returns a member, a new one when it is not there; without a key it is the next of a list.
func (n *nested) below(key string) *nested {
	if n.members == nil {
		*n = nested{members: make(map[string]*nested)}
	}
	key = cmp.Or(key, strconv.Itoa(len(n.keys)))
	m, ok := n.members[key]
	if !ok {
		m = new(nested)
		n.members[key] = m
		n.keys = append(n.keys, key)
	}
	return m
}

func (n *nested) node() tree.Node {
	if n.isText {
		return tree.OfString(n.text)
	}
	members := make([]tree.Member, len(n.keys))
	for i, key := range n.keys {
		members[i] = tree.Member{Key: key, Value: n.members[key].node()}
	}
	return tree.OfObject(members...)
}

// paramScroller sends a value of each answer with the next request: method response.param. It ends with an answer without
// the value.
type paramScroller struct {
	responseParam, queryParam string
	include                   bool
	// What the requests after the first have in place of the job's.
	endpoint, method string
	params           tree.Node

	next tree.Node // null on the first page
}

func parseResponseParam(s *section) func() scroller {
	configured := paramScroller{
		responseParam: s.required("responseParam"), queryParam: s.required("queryParam"),
		include: s.boolean("includeParams", false), params: tree.OfObject(),
	}
	if later := s.section("scrollRequest"); later != nil {
		configured.endpoint, configured.method = later.text("endpoint", ""), parseMethod(later, "")
		configured.params = later.object("params")
		later.done()
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *paramScroller) call(base apiCall, pl *plan) (apiCall, error) {
	if sc.next.Kind() == tree.Null {
		return base, nil
	}
	if !sc.include {
		base.params = tree.OfObject()
	}
	if sc.endpoint != "" {
		base.endpoint, base.home = sc.endpoint, pl.home(sc.endpoint)
	}
	if sc.method != "" {
		base.method = sc.method
	}
	base.params = base.params.Overlay(sc.params).With(sc.queryParam, sc.next)
	return base, nil
}

func (sc *paramScroller) advance(_ apiCall, p *page) (bool, error) {
	n, _ := p.response.At(sc.responseParam, ".")
	if n.Empty() {
		return false, nil
	}
	sc.next = n
	return true, nil
}

func (sc *paramScroller) position() tree.Node { return sc.next }

func (sc *paramScroller) resume(n tree.Node) { sc.next = n }
