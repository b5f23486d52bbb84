package extractor

import (
	"cmp"
	"fmt"
	"math"
	"math/big"

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
	if int64(p.items.Len()) < n {
		return false, nil
	}
	if !sc.started {
		start := sc.start(base)
		if exact, ok := start.Integer(); ok && !exact.IsInt64() {
			return false, fmt.Errorf("the parameter %q of the job is beyond all offsets", sc.offsetParam)
		}
		sc.started, sc.offset = true, start.Cut()
	}
	if sc.offset > math.MaxInt64-n {
		return false, fmt.Errorf("there is no offset after %d", sc.offset)
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

func (sc *pageScroller) position() tree.Node { return tree.OfInt(sc.number) }

func (sc *pageScroller) resume(n tree.Node) { sc.started, sc.number = true, n.Int() }

// cursorScroller asks for items after the greatest, or before the smallest, id so far: method cursor. It ends with an
// empty page.
type cursorScroller struct {
	idKey, param string
	increment    int64
	reverse      bool

	id *big.Int // nil on the first page
}

func parseCursor(s *section) func() scroller {
	configured := cursorScroller{
		idKey: s.required("idKey"), param: s.required("param"), increment: s.integer("increment", 0),
		reverse: s.boolean("reverse", false),
	}
	return func() scroller { sc := configured; return &sc }
}

func (sc *cursorScroller) call(base apiCall, _ *plan) (apiCall, error) {
	if sc.id != nil {
		next := new(big.Int).Add(sc.id, big.NewInt(sc.increment))
		base.params = base.params.With(sc.param, tree.OfInteger(next))
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

// farther reports whether an id that compares so with the one that is known lies further on the way.
func (sc *cursorScroller) farther(order int) bool {
	if sc.reverse {
		return order < 0
	}
	return order > 0
}

func (sc *cursorScroller) position() tree.Node { return tree.OfInteger(sc.id) }

func (sc *cursorScroller) resume(n tree.Node) { sc.id, _ = n.Integer() }
