package console

import (
	"net/url"
	"sync"
)

// derived is computed from a sample once for all its viewers because with 1,000 sinks that takes longer than all else.
type derived struct {
	once    sync.Once
	states  []sinkState
	tiles   [4]tile
	picture picture
}

// all computes it. A sample that no viewer gets has none.
func (s *sample) all() *derived {
	if s.derived == nil {
		s.derived = &derived{}
	}
	s.derived.once.Do(func() {
		s.derived.states = make([]sinkState, len(s.stats.Sinks))
		for i := range s.derived.states {
			s.derived.states[i] = s.sink(i).judge()
		}
		s.derived.tiles, s.derived.picture = s.newTiles(), s.newPictureOfAll()
	})
	return s.derived
}

// shownViews are the views of a sample that viewers have asked for. Most look at the same page.
type shownViews struct {
	mu    sync.Mutex
	views map[string]*shownView
	top   *shownTop
}

// maxShownViews bounds them, because a client that polls may ask for any query.
const maxShownViews = 64

// shownView is a view as it is sent. It is immutable.
type shownView struct {
	once  sync.Once
	head  []byte
	order []string
	lines [][]byte
	byKey map[string][]byte
}

type shownTop struct {
	once sync.Once
	json []byte
}

// view returns a page's view of the sample. key names page and query.
func (s *sample) view(p page, query url.Values, key string) *shownView {
	s.shown.mu.Lock()
	v := s.shown.views[key]
	if v == nil {
		v = &shownView{}
		if s.shown.views == nil {
			s.shown.views = make(map[string]*shownView)
		}
		if len(s.shown.views) < maxShownViews {
			s.shown.views[key] = v
		}
	}
	s.shown.mu.Unlock()
	v.once.Do(func() {
		made := p.live(s, query)
		v.head = encode(made.head)
		v.order, v.lines, v.byKey = make([]string, len(made.rows)), make([][]byte, len(made.rows)), make(map[string][]byte, len(made.rows))
		for i, r := range made.rows {
			line := encode(append([]any{r.key}, r.cells...))
			v.order[i], v.lines[i], v.byKey[r.key] = r.key, line, line
		}
	})
	return v
}

// top returns the verdict as it is sent.
func (s *sample) top() []byte {
	s.shown.mu.Lock()
	if s.shown.top == nil {
		s.shown.top = &shownTop{}
	}
	t := s.shown.top
	s.shown.mu.Unlock()
	t.once.Do(func() { t.json = encode(topOf(s)) })
	return t.json
}
