package buffer

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A caller whose time ends at the very moment at which it gets room either has the room or has given it back.
func TestRoomThatComesWithTheTimeoutIsGivenBack(t *testing.T) {
	reserved, refusals := 0, 0
	for range 100 { // which of the two the caller sees first is up to chance
		var l line
		free := false
		try := func() *OverloadError {
			if !free {
				return &OverloadError{Resource: "memory"}
			}
			reserved++
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := l.enter(ctx, true, time.Hour, try, func() { reserved-- }, func() {
			free = true
			l.serve(nil)
			cancel()
		})
		if err == nil {
			reserved--
		} else if refusals++; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if reserved != 0 {
			t.Fatalf("%v, and %d reservations", err, reserved)
		}
		cancel()
	}
	if refusals == 0 || refusals == 100 {
		t.Errorf("%d calls of 100 saw the end of their time first", refusals)
	}
}
