package keylock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay/forebay/driverkit/keylock"
	"github.com/forebay/forebay/internal/synctest"
)

func TestLocksOfOneNameExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks keylock.Locks
		unlock, err := locks.Lock(t.Context(), "a", "first")
		if err != nil || locks.Holder("a") != "first" {
			t.Fatalf("holder %q, %v", locks.Holder("a"), err)
		}
		other, err := locks.Lock(t.Context(), "b", "")
		if err != nil {
			t.Fatalf("another name waits: %v", err)
		}
		other()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := locks.Lock(short, "a", "late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the lock was taken twice, or not given up: %v", err)
		}
		second := make(chan func())
		go func() {
			unlock, _ := locks.Lock(t.Context(), "a", "second")
			second <- unlock
		}()
		synctest.Wait()
		unlock()
		unlock = <-second
		if got := locks.Holder("a"); got != "second" {
			t.Errorf("holder %q", got)
		}
		unlock()
		if got := locks.Holder("a"); got != "" {
			t.Errorf("holder %q of a free lock", got)
		}
	})
}

func TestEndOfTheContextWins(t *testing.T) {
	var locks keylock.Locks
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if _, err := locks.Lock(ctx, "a", ""); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
	}
}
