package forebay

import (
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/mapping"
)

// While nothing is compared, callers copy no more than MaxBytes and go on.
func TestShadowIsBounded(t *testing.T) {
	compile := func() *mapping.Mapper {
		m, err := mapping.Compile(mapping.Columns{mapping.Body("body")}, mapping.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	s := &Shadow{
		slot: new(atomic.Pointer[Shadow]), maxRow: 1 << 20,
		opts:  ShadowOptions{MaxBytes: 10 * (recordOverhead + 100)}.withDefaults(),
		ended: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.current.mapper, s.changed.mapper = compile(), compile()
	s.align(mapping.Columns{mapping.Body("body")}, mapping.Columns{mapping.Body("body")})
	small, large := mapping.JSON(make([]byte, 100)), mapping.JSON(make([]byte, 20000))
	for range 50 {
		s.offer(small)
	}
	s.offer(large)
	// Structured data has its size only when it is written.
	s.opts.MaxBytes += recordOverhead
	s.offer(mapping.From(string(large.Body)))
	s.offer(mapping.From("0123456789"))
	r := s.Report()
	if r.Seen != 53 || r.Waiting != 10 || r.Dropped != 41 || r.TooLarge != 2 {
		t.Errorf("%+v", r)
	}
	go s.run()
	if r = s.Close(); r.Compared != 10 || r.Equal != 10 || r.Waiting != 0 || s.bytes != 0 || s.copying != 0 {
		t.Errorf("%+v, %d bytes", r, s.bytes)
	}
}

// A mapping that panics ends the shadow, and nothing else.
func TestShadowThatPanics(t *testing.T) {
	e, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	sink := Sink{ID: "s", Table: Table{ID: "t", Columns: mapping.Columns{mapping.Body("body")}}}
	if err := e.Define(t.Context(), Source{ID: "web", Sinks: []Sink{sink}}); err != nil {
		t.Fatal(err)
	}
	s, err := e.Sink("web", sink.ID).Shadow(t.Context(), sink, ShadowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.changed.mapper = nil
	s.mu.Unlock()
	if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte("1"))); err != nil {
		t.Error(err)
	}
	<-s.Done()
	if r := s.Report(); r.End != ShadowFailed || r.Failure == "" || r.Dropped != 1 {
		t.Errorf("%+v", r)
	}
}
