package members_test

import (
	"bytes"
	"testing"

	"github.com/forebay/forebay/internal/members"
)

// A piece is there from its Put to the next Reset, for its user alone.
func TestPieces(t *testing.T) {
	var s members.Shared
	a, b := new(int), new(int)
	check := func(user *int, i int, want string) {
		t.Helper()
		if text, ok := s.Of(user).Piece(i); ok != (want != "") || string(text) != want {
			t.Errorf("piece %d is %q, %v, want %q", i, text, ok, want)
		}
	}
	for range 3 {
		check(a, 0, "")
		s.Of(a).Put(1, []byte("behind a missing one"))
		check(a, 1, "")
		s.Of(a).Put(0, []byte("first"))
		s.Of(a).Put(0, []byte("again"))
		s.Of(a).Put(1, []byte("second"))
		s.Of(b).Put(0, []byte("other"))
		check(a, 0, "first")
		check(a, 1, "second")
		check(a, 2, "")
		check(b, 0, "other")
		check(b, 1, "")
		s.Reset()
		check(b, 0, "")
	}
}

// What is kept is bounded, whatever is put and by how many.
func TestBounds(t *testing.T) {
	var s members.Shared
	const most = 1 << 20
	kept, users := 0, 0
	for range 100 {
		cells := s.Of(new(int))
		for i := range 100 {
			cells.Put(i, bytes.Repeat([]byte("x"), 1<<10))
		}
		before := kept
		for i := range 100 {
			text, _ := cells.Piece(i)
			kept += len(text)
		}
		if kept > before {
			users++
		}
	}
	if kept == 0 || kept > most || users < 2 {
		t.Errorf("%d bytes of %d users are kept", kept, users)
	}
	s.Reset()
	cells := new(members.Shared).Of(new(int))
	cells.Put(0, make([]byte, most))
	if _, ok := cells.Piece(0); ok {
		t.Error("a piece of 1 MiB is kept")
	}
}

func TestLayout(t *testing.T) {
	l := members.NewLayout([]string{"a", "b"}, func(number int) (time, shared bool) { return number == 1, number == 2 })
	for name, want := range map[string]members.Member{"a": {Number: 1, Time: true}, "b": {Number: 2, Shared: true}, "c": {}} {
		if got := l.Named(name); got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
}
