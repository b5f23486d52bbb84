package buffer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
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
			t.Fatalf("got %v, and %d reservations, want 0", err, reserved)
		}
		cancel()
	}
	if refusals == 0 || refusals == 100 {
		t.Errorf("got %d calls of 100 that saw the end of their time first, want some but not all", refusals)
	}
}

// A caller in the line may have been refused because a second caller took room for a moment, tried and gave it back. The
// second caller joins the line next, and then the first one continues, because there may be no other caller to wake it.
func TestRoomThatWasTakenForAMoment(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"the other waits": time.Hour, "the other is refused": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l line
				used := 12 // the other tries
				enter := func(ctx context.Context, patient bool) error {
					return l.enter(ctx, patient, timeout, func() *OverloadError {
						if used+5 > 10 {
							return &OverloadError{Resource: "memory"}
						}
						used += 5
						return nil
					}, func() { used -= 5 }, func() {})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				first := make(chan error)
				go func() { first <- enter(ctx, true) }()
				synctest.Wait()
				used = 0
				if over := (*OverloadError)(nil); timeout > 0 {
					if err := enter(ctx, false); err != nil {
						t.Error(err)
					}
				} else if err := enter(ctx, false); !errors.As(err, &over) {
					t.Errorf("got %v, want a refusal: another caller stood first", err)
				}
				if err := <-first; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A full disk is logged once a minute, with the calls that were refused since the last line.
func TestFullDiskIsLoggedOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	a := &admission{b: &Buffer{dir: "data", log: slog.New(slog.NewTextHandler(&log, nil))}}
	synctest.Test(t, func(*testing.T) {
		for range 150 { // one a second
			a.overloadsDisk.Add(1)
			a.noteFull(&OverloadError{Resource: "disk", Volume: "data", Free: 7})
			time.Sleep(time.Second)
		}
	})
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := []string{"refused_calls=1 ", "refused_calls=60 ", "refused_calls=60 "}
	if len(got) != len(want) {
		t.Fatalf("150 seconds of refusals have %d lines, want %d:\n%s", len(got), len(want), log.String())
	}
	for i, line := range got {
		if !strings.Contains(line, want[i]) || !strings.Contains(line, "free_bytes=7") {
			t.Errorf("line %d is %s, want %s and the free bytes", i, line, want[i])
		}
	}
}
