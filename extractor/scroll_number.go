package extractor

import (
	"fmt"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// parseLimit reads the page size, which may be written as a string.
func parseLimit(s *section, required bool) tree.Node {
	n, ok := s.get("limit")
	switch {
	case !ok && required:
		s.wrong("limit", "is required")
	case ok:
		if i, isInteger := n.Digits(); !isInteger || i <= 0 {
			s.wrong("limit", "must be a positive integer")
		}
	}
	return n
}

// offsetScroller asks for items from a number on: method offset. It ends with a page of fewer items than the limit.
type offsetScroller struct {
	limit                   tree.Node
	limitParam, offsetParam string
	firstPageParams         bool
	fromJob                 bool

	started bool
	offset  int64
}

func parseOffset(s *section) func() scroller {
	configured := offsetScroller{
		limit: parseLimit(s, true), limitParam: s.text("limitParam", "limit"), offsetParam: s.text("offsetParam", "offset"),
		firstPageParams: s.boolean("firstPageParams", true), fromJob: s.boolean("offsetFromJob", false),
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *offsetScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if !sc.started && !sc.firstPageParams {
		return base, nil
	}
	limit, _ := pageLimit(base, sc.limitParam, sc.limit)
	offset := tree.OfInt(sc.offset)
	if !sc.started {
		offset = sc.start(base)
	}
	base.params = base.params.With(sc.limitParam, limit).With(sc.offsetParam, offset)
	return base, nil
}

// start returns the offset of the first page as the job writes it.
func (sc *offsetScroller) start(base apiCall) tree.Node {
	if own, _ := base.params.Get(sc.offsetParam); sc.fromJob && !own.Empty() && own.IsScalar() {
		return own
	}
	return tree.OfInt(0)
}

func (sc *offsetScroller) advance(base apiCall, p *page) (bool, error) {
	limit, _ := pageLimit(base, sc.limitParam, sc.limit)
	n, ok := size(limit)
	if !ok {
		return false, fmt.Errorf("the parameter %q of the job is the page size and must be a positive number", sc.limitParam)
	}
	if int64(len(p.items)) < n {
		return false, nil
	}
	if !sc.started {
		sc.started, sc.offset = true, sc.start(base).Cut()
	}
	sc.offset += n
	return true, nil
}

func (sc *offsetScroller) position() tree.Node { return tree.OfInt(sc.offset) }

func (sc *offsetScroller) resume(n tree.Node) { sc.started, sc.offset = true, n.Int() }

// pageScroller counts pages: method pagenum. It ends with an empty page.
type pageScroller struct {
	limit                 tree.Node // null: unknown
	limitParam, pageParam string
	firstPageParams       bool

	started bool
	number  int64
}

func parsePageNumber(s *section) func() scroller {
	configured := pageScroller{
		limit: parseLimit(s, false), limitParam: s.text("limitParam", "limit"), pageParam: s.text("pageParam", "page"),
		firstPageParams: s.boolean("firstPageParams", true), number: s.integer("firstPage", 1),
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *pageScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if !sc.started && !sc.firstPageParams {
		return base, nil
	}
	limit, known := pageLimit(base, sc.limitParam, sc.limit)
	base.params = base.params.With(sc.pageParam, tree.OfInt(sc.number))
	if known {
		base.params = base.params.With(sc.limitParam, limit)
	}
	return base, nil
}

func (sc *pageScroller) advance(_ apiCall, p *page) (bool, error) {
	sc.started = true
	sc.number++
	return len(p.items) > 0, nil
}

func (sc *pageScroller) position() tree.Node { return tree.OfInt(sc.number) }

func (sc *pageScroller) resume(n tree.Node) { sc.started, sc.number = true, n.Int() }

// cursorScroller asks for items after the greatest, or before the smallest, id so far: method cursor. It ends with an
// empty page.
type cursorScroller struct {
	idKey, param string
	increment    int64
	reverse      bool

	known bool
	id    int64
}

func parseCursor(s *section) func() scroller {
	configured := cursorScroller{
		idKey: s.required("idKey"), param: s.required("param"), increment: s.integer("increment", 0),
		reverse: s.boolean("reverse", false),
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *cursorScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if sc.known {
		base.params = base.params.With(sc.param, tree.OfInt(sc.id+sc.increment))
	}
	return base, nil
}

func (sc *cursorScroller) advance(_ apiCall, p *page) (bool, error) {
	for i, item := range p.items {
		n, _ := item.At(sc.idKey, ".")
		number, ok := n.Number()
		if !ok {
			return false, fmt.Errorf("the cursor %q of item %d must be a number, not %s", sc.idKey, i, n.Kind().Phrase())
		}
		id := number.Cut()
		if !sc.known || sc.reverse && id < sc.id || !sc.reverse && id > sc.id {
			sc.known, sc.id = true, id
		}
	}
	return len(p.items) > 0, nil
}

func (sc *cursorScroller) position() tree.Node { return tree.OfInt(sc.id) }

func (sc *cursorScroller) resume(n tree.Node) { sc.known, sc.id = true, n.Int() }
