package extractor

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"net/http"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// numbered has the common fields of the methods that count.
type numbered struct {
	limit           tree.Node // the page size, null if unknown
	limitParam      string
	firstPageParams bool

	started bool
	number  int64 // of the next page, or of its first item
}

func parseNumbered(s *section) numbered {
	limit, ok := s.get("limit")
	if i, isInteger := limit.Digits(); ok && (!isInteger || i <= 0) { // it may be written as a string
		s.wrong("limit", "must be a positive integer")
	}
	return numbered{limit: limit, limitParam: s.text("limitParam", "limit"), firstPageParams: s.boolean("firstPageParams", true)}
}

// bare reports whether the next request is the job's as it is.
func (sc *numbered) bare() bool { return !sc.started && !sc.firstPageParams }

// size returns the page size in force, the job's own parameter of that name, else the configured one, null when there is
// neither.
func (sc *numbered) size(base apiCall) tree.Node {
	if own := base.param(sc.limitParam); !own.Empty() && own.IsScalar() {
		return own
	}
	return sc.limit
}

func (sc *numbered) position() tree.Node { return tree.OfInt(sc.number) }

func (*numbered) inHeader(http.Header) string { return "" }

func (*numbered) source() string { return "" }

func (sc *numbered) resume(n tree.Node) { sc.started, sc.number = true, n.Int() }

// offsetScroller asks for items from a number on, for the method offset. It ends with a page of fewer items than the limit.
type offsetScroller struct {
	numbered
	offsetParam string
	fromJob     bool
}

func parseOffset(s *section) func() scroller {
	configured := offsetScroller{
		numbered: parseNumbered(s), offsetParam: s.text("offsetParam", "offset"), fromJob: s.boolean("offsetFromJob", false),
	}
	if _, ok := s.get("limit"); !ok {
		s.wrong("limit", "is required")
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *offsetScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if sc.bare() {
		return base, nil
	}
	offset := tree.OfInt(sc.number)
	if !sc.started {
		offset = sc.start(base)
	}
	base.with(sc.limitParam, sc.size(base))
	base.with(sc.offsetParam, offset)
	return base, nil
}

// start returns the offset of the first page as the job writes it.
func (sc *offsetScroller) start(base apiCall) tree.Node {
	if own := base.param(sc.offsetParam); sc.fromJob && !own.Empty() && own.IsScalar() {
		return own
	}
	return tree.OfInt(0)
}

func (sc *offsetScroller) advance(base apiCall, p *page) (bool, error) {
	limit, ok := sc.size(base).Number()
	n := limit.Cut()
	if !ok || n <= 0 {
		return false, fmt.Errorf("the parameter %q of the job is the page size and must be a positive number", sc.limitParam)
	}
	if int64(p.items.Len()) < n {
		return false, nil
	}
	if !sc.started {
		start := sc.start(base)
		if exact, ok := start.Integer(); ok && !exact.IsInt64() {
			return false, fmt.Errorf("the parameter %q of the job is beyond all offsets", sc.offsetParam)
		}
		sc.started, sc.number = true, start.Cut()
	}
	if sc.number > math.MaxInt64-n {
		return false, fmt.Errorf("there is no offset after %d", sc.number)
	}
	sc.number += n
	return true, nil
}

func (sc *offsetScroller) ending(base apiCall, _ *page) (rule string, told bool) {
	return fmt.Sprintf("a page has fewer items than the limit of %s", sc.size(base).Text()), false
}

// pageScroller counts pages for the method pagenum. It ends with an empty page.
type pageScroller struct {
	numbered
	pageParam string
}

func parsePageNumber(s *section) func() scroller {
	configured := pageScroller{numbered: parseNumbered(s), pageParam: s.text("pageParam", "page")}
	configured.number = s.integer("firstPage", 1)
	return func() scroller { sc := configured; return &sc }
}

func (sc *pageScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if sc.bare() {
		return base, nil
	}
	limit := sc.size(base)
	base.with(sc.pageParam, tree.OfInt(sc.number))
	if limit.Kind() != tree.Null {
		base.with(sc.limitParam, limit)
	}
	return base, nil
}

func (sc *pageScroller) advance(_ apiCall, p *page) (bool, error) {
	if p.items.Len() == 0 {
		return false, nil
	}
	if sc.number == math.MaxInt64 {
		return false, fmt.Errorf("there is no page after %d", sc.number)
	}
	sc.started = true
	sc.number++
	return true, nil
}

func (*pageScroller) ending(apiCall, *page) (rule string, told bool) { return "a page is empty", false }

// cursorScroller asks for items after the greatest, or before the smallest, id so far, for the method cursor. It ends with an
// empty page.
type cursorScroller struct {
	idKey, param string
	increment    int64
	reverse      bool

	id *big.Int // nil on the first page
}

func parseCursor(s *section) func() scroller {
	if s.boolean("last", false) {
		for _, key := range []string{"increment", "reverse"} {
			if _, ok := s.get(key); ok {
				s.wrong(key, "cannot be combined with last: the value of the last item is sent as it is")
			}
		}
		configured := lastScroller{idKey: s.required("idKey"), param: s.required("param")}
		return func() scroller { sc := configured; return &sc }
	}
	configured := cursorScroller{
		idKey: s.required("idKey"), param: s.required("param"), increment: s.integer("increment", 0),
		reverse: s.boolean("reverse", false),
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *cursorScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if sc.id != nil {
		next := new(big.Int).Add(sc.id, big.NewInt(sc.increment))
		base.with(sc.param, tree.OfInteger(next))
	}
	return base, nil
}

func (sc *cursorScroller) advance(_ apiCall, p *page) (bool, error) {
	i := -1
	for m := range p.items.Each() {
		i++
		n, _ := m.Value.At(sc.idKey, ".")
		number, ok := n.Number()
		if !ok {
			return false, fmt.Errorf("the cursor %q of item %d must be a number, not %s", sc.idKey, i, n.Kind().Phrase())
		}
		if number.Kind() == tree.Int && sc.id != nil && sc.id.IsInt64() {
			if sc.farther(cmp.Compare(number.Int(), sc.id.Int64())) {
				sc.id.SetInt64(number.Int())
			}
			continue
		}
		id, ok := number.Integer()
		if !ok {
			return false, fmt.Errorf("the cursor %q of item %d is beyond all ids", sc.idKey, i)
		}
		if sc.id == nil || sc.farther(id.Cmp(sc.id)) {
			sc.id = id
		}
	}
	return p.items.Len() > 0, nil
}

// farther reports whether an id that compares so with the known id lies further on the way.
func (sc *cursorScroller) farther(order int) bool {
	if sc.reverse {
		return order < 0
	}
	return order > 0
}

func (sc *cursorScroller) position() tree.Node { return tree.OfInteger(sc.id) }

func (*cursorScroller) ending(apiCall, *page) (rule string, told bool) {
	return "a page is empty", false
}

func (*cursorScroller) inHeader(http.Header) string { return "" }

func (sc *cursorScroller) source() string { return fmt.Sprintf("the field %q of the items", sc.idKey) }

func (sc *cursorScroller) resume(n tree.Node) { sc.id, _ = n.Integer() }

// lastScroller asks for items after the last one, whose value may be text or a list, for the method cursor with last. It ends with an empty page.
type lastScroller struct {
	idKey, param string

	value tree.Node // null on the first page
}

func (sc *lastScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if sc.value.Kind() != tree.Null {
		base.with(sc.param, sc.value)
	}
	return base, nil
}

func (sc *lastScroller) advance(_ apiCall, p *page) (bool, error) {
	n := p.items.Len()
	if n == 0 {
		return false, nil
	}
	value, _ := p.items.Item(n-1).At(sc.idKey, ".")
	if value.Empty() {
		return false, fmt.Errorf("the last item has no value for the cursor at %q", sc.idKey)
	}
	sc.value = value
	return true, nil
}

func (sc *lastScroller) position() tree.Node { return sc.value }

func (sc *lastScroller) resume(n tree.Node) { sc.value = n }

func (*lastScroller) ending(apiCall, *page) (rule string, told bool) { return "a page is empty", false }

func (*lastScroller) inHeader(http.Header) string { return "" }

func (sc *lastScroller) source() string {
	return fmt.Sprintf("the field %q of the last item", sc.idKey)
}
