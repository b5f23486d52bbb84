package buffer_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// Positions move to another buffer with their values. Until the decision no caller finds them there, or sets one in their place, even after a restart. A
// position that the other buffer has already stays. Positions with other names stay where they are.
func TestPositionsMove(t *testing.T) {
	opts := localdisk.On(memoryOptions(t, buffertest.NewMemory()), disktest.New(t))
	set := func(b *buffer.Buffer, sink, name, value string) {
		t.Helper()
		if err := b.Sink(sink).SetPosition(t.Context(), buffer.Position{Name: name, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	from := openAt(t, "from", memoryOptions(t, buffertest.NewMemory()))
	defer closeBuffer(t, from)
	to := openAt(t, "to", opts)
	defer func() { closeBuffer(t, to) }()
	reopen := func() {
		t.Helper()
		closeBuffer(t, to)
		to = openAt(t, "to", opts)
	}
	for _, sink := range []string{"a", "never defined elsewhere"} {
		define(t, from, sink)
		set(from, sink, "run/1", "one of "+sink)
		set(from, sink, "other", "stays")
	}
	define(t, to, "a")
	set(from, "a", "run/2", "two")
	set(to, "a", "run/2", "own")
	by := buffer.Mover{Instance: "i", Session: "s", Epoch: 7}
	check := func(when, sink, want string) {
		t.Helper()
		got, err := to.Sink(sink).Positions(t.Context())
		if errors.Is(err, buffer.ErrUnknownSink) {
			err = nil
		}
		if s := fmt.Sprintf("%s", got); err != nil || s != want {
			t.Errorf("%s: sink %q has the positions %s, %v, want %s", when, sink, s, err, want)
		}
	}
	receive := func() {
		t.Helper()
		if n, err := to.Moves().ReceivePositions(t.Context(), from, "run/", by); err != nil || n != 3 {
			t.Fatalf("got %d positions, %v, want 3", n, err)
		}
	}
	if n := from.Moves().Positions("run/"); n != 3 {
		t.Errorf("got %d positions that may move, want 3", n)
	}
	for _, accept := range []bool{false, true} {
		receive()
		receive() // which deletes the first copies
		for range 2 {
			check("before the decision", "a", "map[run/2:own]")
			if _, err := to.Sink("a").Position(t.Context(), "run/1"); !errors.Is(err, buffer.ErrPositionArrives) {
				t.Errorf("a position that arrives is read: got %v, want ErrPositionArrives", err)
			}
			if err := to.Sink("a").SetPosition(t.Context(), buffer.Position{Name: "run/1", Value: []byte("x")}); !errors.Is(err, buffer.ErrPositionArrives) {
				t.Errorf("a position that arrives is set: got %v, want ErrPositionArrives", err)
			}
			if got := to.Moves().Arrivals(); len(got) != 1 || got[0] != (buffer.Arrival{Mover: by, Positions: 3}) {
				t.Errorf("got the arrivals %+v, want 3 positions of %+v", got, by)
			}
			reopen()
		}
		if err := to.Moves().EndArrival(t.Context(), "another", !accept); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a decision may be repeated
			if err := to.Moves().EndArrival(t.Context(), "i", accept); err != nil {
				t.Fatal(err)
			}
			if n := len(to.Moves().Arrivals()); n > 0 {
				t.Errorf("after the decision %d arrivals are left, want 0", n)
			}
			if accept {
				check("accepted", "a", "map[run/1:one of a run/2:own]")
				check("accepted", "never defined elsewhere", "map[run/1:one of never defined elsewhere]")
			} else {
				check("dropped", "a", "map[run/2:own]")
				check("dropped", "never defined elsewhere", "map[]")
			}
			reopen()
		}
	}
	if got, err := from.Sink("a").Positions(t.Context()); err != nil || len(got) != 3 {
		t.Errorf("the first buffer has the positions %s, %v, want 3, because its owner forgets them", got, err)
	}
}

// Positions that arrive take no room from the runs that a sink has itself, or a new run would forget finished ones for nothing.
func TestArrivingPositionsTakeNoRoom(t *testing.T) {
	from := openAt(t, "from", memoryOptions(t, buffertest.NewMemory()))
	defer closeBuffer(t, from)
	to := openAt(t, "to", memoryOptions(t, buffertest.NewMemory()))
	defer closeBuffer(t, to)
	define(t, from, "a")
	define(t, to, "a")
	set := func(b *buffer.Buffer, name string) error {
		return b.Sink("a").SetPosition(t.Context(), buffer.Position{Name: name, Value: []byte("x")})
	}
	const room = 16
	for n := range room {
		if err := set(from, fmt.Sprint("run/from-", n)); err != nil {
			t.Fatal(err)
		}
	}
	by := buffer.Mover{Instance: "i", Session: "s", Epoch: 7}
	if n, err := to.Moves().ReceivePositions(t.Context(), from, "run/", by); err != nil || n != room {
		t.Fatalf("got %d positions, %v, want %d", n, err, room)
	}
	for n := range room {
		if err := set(to, fmt.Sprint("run/to-", n)); err != nil {
			t.Fatalf("position %d while %d others arrive: got %v, want no error", n, room, err)
		}
	}
	if err := set(to, "run/more"); !errors.Is(err, buffer.ErrTooManyPositions) {
		t.Errorf("a position beyond %d: got %v, want ErrTooManyPositions", room, err)
	}
}
