package buffer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/synctest"
)

// Keys move to another buffer with the sinks and the times of their rows. They are known there after a restart, however often they were copied, and
// expire when they would have expired in the first buffer. Receipts of sinks that are not defined there are left out.
func TestKeysMoveToAnotherBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 5000 // more than one commit copies
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts.KeyRetention = time.Hour
		from := openAt(t, "from", opts)
		a, lost := define(t, from, "a"), define(t, from, "lost")
		for key := range keys {
			mustOnce(t, from, key, a)
		}
		mustOnce(t, from, keys, lost)

		to := openAt(t, "to", opts)
		define(t, to, "other")
		mustOnce(t, to, 1, define(t, to, "a")) // a call of this buffer, with a key that comes
		time.Sleep(opts.KeyRetention / 2)
		for range 2 {
			if n, err := to.Moves().ReceiveReceipts(t.Context(), from); err != nil || n != keys+1 {
				t.Fatalf("got %d receipts, %v, want %d", n, err, keys+1)
			}
		}
		closeBuffer(t, from)
		copies := func(list []buffer.Receipt) (copied []bool) {
			for _, r := range list {
				if r.SinkID != "a" || string(r.Data) == "" {
					t.Errorf("got receipt %+v, want one of sink a", r)
				}
				copied = append(copied, r.Copied)
			}
			return copied
		}
		check := func(key int, want ...bool) {
			t.Helper()
			list, running, err := to.Known(keyOf(key))
			if got := copies(list); err != nil || running || !slices.Equal(got, want) {
				t.Errorf("key %d: got receipts that are copied %v, running %t, %v, want %v", key, got, running, err, want)
			}
		}
		for range 2 {
			check(0, true)
			check(1, false, true)
			check(keys-1, true)
			check(keys)
			closeBuffer(t, to)
			to = openAt(t, "to", opts)
			define(t, to, "a")
		}
		time.Sleep(opts.KeyRetention / 2)
		check(0)
		closeBuffer(t, to)
	})
}

// A key with a running call is known as running, and nothing waits for the call.
func TestKnownBesideACall(t *testing.T) {
	mem := buffertest.NewMemory()
	b := openAt(t, t.TempDir(), memoryOptions(t, mem))
	defer closeBuffer(t, b)
	mustOnce(t, b, 1, define(t, b, "a"))
	c, err := b.Claim(t.Context(), keyOf(1))
	must(t, err)
	for _, want := range []bool{true, false} {
		list, running, err := b.Known(keyOf(1))
		if err != nil || running != want || len(list) != 1 {
			t.Errorf("got %d receipts, running %t, %v, want 1 receipt and running %t", len(list), running, err, want)
		}
		c.Release()
	}
}
