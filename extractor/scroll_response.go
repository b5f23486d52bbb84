package extractor

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// urlScroller follows links in the responses, for the method response.url, or response.link for links in the header Link. It ends with a
// response without a link.
type urlScroller struct {
	rel               string // of a link in the header; "" for one in the response
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

// parseResponseLink is parseResponseURL for the header Link (RFC 8288).
func parseResponseLink(s *section) func() scroller {
	configured := urlScroller{rel: s.text("rel", "next"), include: s.boolean("includeParams", false)}
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
		return base, fmt.Errorf("the link at %q in the response: %w", cmp.Or(sc.rel, sc.urlKey), err)
	}
	base.endpoint = to.String()
	return base, nil
}

func (sc *urlScroller) advance(_ apiCall, p *page) (bool, error) {
	if sc.rel != "" {
		sc.next = sc.inHeader(p.header)
		return sc.next != "", nil
	}
	n, _ := p.response.At(sc.urlKey, sc.delimiter)
	if n.Empty() {
		return false, nil
	}
	if n.IsCollection() {
		return false, fmt.Errorf("the value at %q in the response must be a link, not %s", sc.urlKey, n.Kind().Phrase())
	}
	sc.next = n.Text()
	return true, nil
}

func (sc *urlScroller) position() tree.Node { return tree.OfString(sc.next) }

func (sc *urlScroller) resume(n tree.Node) { sc.next = n.Str() }

func (sc *urlScroller) inHeader(h http.Header) string {
	if sc.rel == "" {
		return ""
	}
	return linkOf(h.Values("Link"), sc.rel)
}

func (sc *urlScroller) source() string {
	if sc.rel != "" {
		return fmt.Sprintf("the link %q in the header Link", sc.rel)
	}
	return fmt.Sprintf("the link at %q in the response", sc.urlKey)
}

func (sc *urlScroller) ending(_ apiCall, p *page) (rule string, told bool) {
	if sc.rel != "" {
		return fmt.Sprintf("there is no link %q in the header Link", sc.rel), len(p.header.Values("Link")) > 0
	}
	_, told = p.response.At(sc.urlKey, sc.delimiter)
	return fmt.Sprintf("there is no link at %q in the response", sc.urlKey), told
}

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

// maxNesting bounds the brackets of a name. One with more stands for itself.
const maxNesting = 64

// nested is a parameter that is being gathered: text, or members in the order of their appearance.
type nested struct {
	text    string
	isText  bool
	keys    []string
	members map[string]*nested
}

func (n *nested) set(text string) { *n = nested{text: text, isText: true} }

// below returns a member, a new one when it is not there. Without a key it is the next of a list.
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

// paramScroller sends a value of each response with the next request, for the method response.param. It ends with a response without
// the value.
type paramScroller struct {
	responseParam, queryParam string
	header                    string // that has the value instead, for the method response.header
	include                   bool
	// What the requests after the first have in place of the job's.
	endpoint, method string
	params           tree.Node

	next tree.Node // null on the first page
}

func parseResponseParam(s *section) func() scroller {
	return parseNextParam(s, paramScroller{responseParam: s.required("responseParam")})
}

// parseResponseHeader is parseResponseParam for a value in a header.
func parseResponseHeader(s *section) func() scroller {
	return parseNextParam(s, paramScroller{header: s.required("header")})
}

func parseNextParam(s *section, configured paramScroller) func() scroller {
	configured.queryParam, configured.include = s.required("queryParam"), s.boolean("includeParams", false)
	configured.params = tree.OfObject()
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
	base.params = base.params.Overlay(sc.params)
	base.with(sc.queryParam, sc.next)
	return base, nil
}

func (sc *paramScroller) advance(_ apiCall, p *page) (bool, error) {
	if sc.header != "" {
		text := sc.inHeader(p.header)
		sc.next = tree.OfString(text)
		return text != "", nil
	}
	n, _ := p.response.At(sc.responseParam, ".")
	if n.Empty() {
		return false, nil
	}
	sc.next = n
	return true, nil
}

func (sc *paramScroller) position() tree.Node { return sc.next }

func (sc *paramScroller) resume(n tree.Node) { sc.next = n }

func (sc *paramScroller) inHeader(h http.Header) string {
	if sc.header == "" {
		return ""
	}
	return strings.TrimSpace(h.Get(sc.header))
}

func (sc *paramScroller) source() string {
	if sc.header != "" {
		return fmt.Sprintf("the header %q", sc.header)
	}
	return fmt.Sprintf("the value at %q in the response", sc.responseParam)
}

func (sc *paramScroller) ending(_ apiCall, p *page) (rule string, told bool) {
	if sc.header != "" {
		return fmt.Sprintf("there is no header %q", sc.header), len(p.header.Values(sc.header)) > 0
	}
	_, told = p.response.At(sc.responseParam, ".")
	return fmt.Sprintf("there is no value at %q in the response", sc.responseParam), told
}

// linkOf returns the target of the first link with a relation type (RFC 8288), "" when there is none.
func linkOf(headers []string, rel string) string {
	for _, text := range headers {
		for {
			_, rest, ok := strings.Cut(text, "<")
			if !ok {
				break
			}
			target, params, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			var found bool
			if found, text = linkHas(params, rel); found {
				return strings.TrimSpace(target)
			}
		}
	}
	return ""
}

// linkHas reads the parameters of a link and reports whether its relation types have rel. rest begins with the next link.
func linkHas(text, rel string) (found bool, rest string) {
	known := false // of several rel the first counts
	for {
		text = strings.TrimLeft(text, " \t;")
		if text == "" || text[0] == ',' {
			return found, text
		}
		name := text[:strings.IndexAny(text+";", ";,= \t")]
		text = strings.TrimLeft(text[len(name):], " \t")
		value := ""
		if strings.HasPrefix(text, "=") {
			value, text = linkValue(strings.TrimLeft(text[1:], " \t"))
		} else if name == "" {
			text = text[1:] // no link that a server may send
		}
		if strings.EqualFold(name, "rel") && !known {
			known = true
			found = slices.ContainsFunc(strings.Fields(value), func(r string) bool { return strings.EqualFold(r, rel) })
		}
	}
}

// linkValue reads a token or a quoted text.
func linkValue(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text+";", ";, \t")
		return text[:end], text[end:]
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:]
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
