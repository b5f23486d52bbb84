package extractor

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// paginationConfig says how a job gets from page to page, and when it ends.
type paginationConfig struct {
	method string
	// scroller makes a scroller at its first page, or nil for the method multiple.
	scroller func() scroller
	stops    stopConfig
	// delimiter makes paths of the names of parameters.
	delimiter string

	// Of the method multiple, the scrollers by name, and the name that jobs without one use.
	scrollers map[string]*paginationConfig
	fallback  string
	path      string
}

type page struct {
	response tree.Node
	header   http.Header
	items    tree.Node // a list
	// warning or problem say why there are no items although the response has content.
	warning string
	problem error
	// blank is true for a response without a body, which is a page without items. single is true if the item is not in a list.
	blank, single bool
	// sum is the checksum of the items as the response has them, once it is known.
	sum []byte
}

// fingerprint identifies the response by types and order of everything in it, and by the next page that its headers name to a scroller. The
// items contribute their checksum, which the page has then. They are read once for both.
func (p *page) fingerprint(sc scroller) string {
	p.sum = sumOf(p.items, nil)
	// No text of a response begins like this one.
	outline, _ := p.response.Replace(p.items, tree.OfString("\xff"+string(p.sum)))
	if next := sc.inHeader(p.header); next != "" {
		outline = tree.OfList(outline, tree.OfString(next))
	}
	return fingerprint(outline)
}

// A scroller knows at which page a job is. It is used by one job run only.
type scroller interface {
	// call returns the request of the page at the position, where base is the job as it is configured.
	call(base apiCall, pl *plan) (apiCall, error)
	// advance moves to the next page after one was read, and reports whether there is one.
	advance(base apiCall, p *page) (bool, error)
	// position returns where the scroller is, and resume takes it there. A position has no parameters of the
	// configuration in it.
	position() tree.Node
	resume(tree.Node)
	// inHeader returns the part of the response headers that names the next page. It is empty for a scroller that does not read headers.
	inHeader(http.Header) string
	// ending describes the rule of the scroller that ends the job. told is true if the page itself says that there is no next page.
	ending(base apiCall, p *page) (rule string, told bool)
	// source names, for messages, the part of the response that determines the next request. It is empty for a scroller that counts.
	source() string
}

var methods = map[string]func(*section) func() scroller{
	"response.url":    parseResponseURL,
	"response.link":   parseResponseLink,
	"response.header": parseResponseHeader,
	"offset":          parseOffset,
	"pagenum":         parsePageNumber,
	"response.param":  parseResponseParam,
	"cursor":          parseCursor,
}

func parsePagination(s *section, nested bool) *paginationConfig {
	pc := &paginationConfig{method: s.text("method", ""), path: s.path}
	pc.stops = parseStops(s)
	pc.delimiter = s.text("paramDelimiter", "")
	defer s.done()
	if pc.method == "multiple" && !nested {
		pc.parseMultiple(s)
		return pc
	}
	if _, given := s.get("method"); !given && !nested {
		return nil // conditions without a method, because there is one page anyway
	}
	parse, ok := methods[pc.method]
	if !ok {
		known := slices.Sorted(maps.Keys(methods))
		if !nested {
			known = append(known, "multiple")
		}
		s.wrong("method", "unknown method %q; known are %s", pc.method, strings.Join(known, ", "))
		return pc
	}
	pc.scroller = parse(s)
	return pc
}

func (pc *paginationConfig) parseMultiple(s *section) {
	pc.scrollers = make(map[string]*paginationConfig)
	pc.fallback = s.text("default", "")
	below := s.section("scrollers")
	if below == nil || below.node.Len() == 0 {
		s.wrong("scrollers", "must be an object with at least one scroller")
		return
	}
	for _, m := range below.node.Members() {
		if inner := asSection(s.p, m.Value, below.at(m.Key)); inner != nil {
			pc.scrollers[m.Key] = parsePagination(inner, true)
		}
	}
}

// check reports jobs, at every depth, whose scroller does not exist.
func (pc *paginationConfig) check(p *problems, jobs []*jobConfig) {
	multiple := pc != nil && pc.method == "multiple"
	named := func(name, path string) {
		if name == "" {
			return
		}
		if !multiple {
			p.unused = append(p.unused, Problem{path, "ignored: there is no pagination of method multiple"})
		} else if pc.scrollers[name] == nil {
			p.add(path, "there is no scroller %q in %s", name, join(pc.path, "scrollers"))
		}
	}
	if multiple {
		named(pc.fallback, join(pc.path, "default"))
	}
	var walk func(jobs []*jobConfig)
	walk = func(jobs []*jobConfig) {
		for _, j := range jobs {
			named(j.scroller, join(j.path, "scroller"))
			walk(j.children)
		}
	}
	walk(jobs)
}

// choose returns the pagination of a job: a scroller, or nil for one page, its stop conditions, and the delimiter of the
// names of parameters.
func (pc *paginationConfig) choose(j *jobConfig) (sc scroller, stops []stopConfig, delimiter string) {
	switch {
	case pc == nil:
		return nil, nil, ""
	case pc.scroller != nil:
		return pc.scroller(), []stopConfig{pc.stops}, pc.delimiter
	}
	chosen := pc.scrollers[cmp.Or(j.scroller, pc.fallback)]
	if chosen == nil {
		return nil, nil, ""
	}
	return chosen.scroller(), []stopConfig{pc.stops, chosen.stops}, cmp.Or(chosen.delimiter, pc.delimiter)
}
