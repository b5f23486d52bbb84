package buffer_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// Many callers run into the bounds of memory and disk at once, while the staging is out of reach. Both bounds hold, each
// refusal is typed and takes nothing, and when the staging is back every row that was acknowledged goes to the table once.
func TestBoundsHoldUnderLoadAndAllRecovers(t *testing.T) {
	const (
		callers  = 16
		maxDisk  = 4 << 20
		maxBytes = 1 << 20
	)
	mem := buffertest.NewMemory()
	var down atomic.Bool
	down.Store(true)
	mem.Before = failWhile(down.Load, errors.New("staging is down"), buffertest.OpPut)
	fs := &slowLog{FS: disktest.New(t), gate: make(chan struct{}, 1)}
	opts := memoryOptions(t, mem)
	opts = localdisk.On(opts, fs)
	opts.MaxDiskBytes, opts.MaxPendingBytes, opts.AdmissionWait = maxDisk, maxBytes, -1
	opts.Retry = buffer.Retry{Initial: time.Millisecond, Max: 10 * time.Millisecond}
	b := open(t, opts)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })

	// The disk holds still until the memory is full. The waiting rows are then known.
	fs.hold()
	value := strings.Repeat("x", 64<<10)
	var (
		next       atomic.Int64
		memory     atomic.Int64
		acked      sync.Map
		full, load sync.WaitGroup
		released   = make(chan struct{})
	)
	full.Add(callers)
	for range callers {
		load.Go(func() {
			var refused sync.Once
			defer refused.Do(full.Done)
			var last buffer.Ticket
			for {
				id := int(next.Add(1))
				ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, value), Count: 1})
				var over *buffer.OverloadError
				switch {
				case errors.As(err, &over):
					if over.RetryAfter <= 0 || over.Used > over.Limit+callers*int64(len(value)+20) {
						t.Errorf("refused with %+v", over)
					}
					if over.Resource == "disk" {
						return
					}
					memory.Add(1)
					refused.Do(full.Done)
					<-released
					_ = last.Wait(t.Context()) // room comes with a commit. Its outcome is looked at below
					continue
				case err != nil:
					t.Error(err)
					return
				}
				if st := b.Stats(); st.PendingBytes > maxBytes+callers*int64(len(value)+20) { // with calls about to be refused
					t.Errorf("got %d pending bytes, want at most the bound of %d and one row of each caller", st.PendingBytes, maxBytes)
				}
				last = ticket
				// Waiting is for another goroutine, because a caller that waits cannot fill the memory.
				load.Go(func() {
					if err := ticket.Wait(t.Context()); err != nil {
						t.Error(err)
						return
					}
					acked.Store(fmt.Sprint(id), true)
				})
			}
		})
	}
	full.Wait()
	fs.release()
	close(released)
	load.Wait()

	st := b.Stats()
	if memory.Load() == 0 || st.OverloadsMemory == 0 || st.OverloadsDisk < callers {
		t.Fatalf("%d calls were refused for memory, %d for the disk; want some of both", st.OverloadsMemory, st.OverloadsDisk)
	}
	// Payloads have no more bytes than rows here, and admission counts rows.
	if st.LocalBytes > maxDisk || st.LocalBytes < maxDisk-(2<<20) || st.PendingBytes != 0 {
		t.Fatalf("%d bytes wait on disk and %d in memory, the bound is %d", st.LocalBytes, st.PendingBytes, maxDisk)
	}

	down.Store(false)
	must(t, b.Sink("a").Flush(t.Context()))
	last := fmt.Sprint(next.Add(1))
	ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(int(next.Load()), "after"), Count: 1})
	if err == nil {
		err = ticket.Wait(t.Context())
	}
	if err == nil {
		err = b.Sink("a").Flush(t.Context())
	}
	if err != nil {
		t.Fatalf("the room is not back: %v", err)
	}
	acked.Store(last, true)
	for _, id := range ids(mem, "in.c-test.a") {
		if _, ok := acked.LoadAndDelete(id); !ok {
			t.Errorf("row %s is in the table twice or was refused", id)
		}
	}
	acked.Range(func(id, _ any) bool {
		t.Errorf("row %v was acknowledged and is not in the table", id)
		return true
	})
	verify(t, b)
}

// Since when calls are refused is known, for one sink and for all, until there is room again.
func TestRefusingSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var held atomic.Bool
		held.Store(true)
		mem.Before = failWhile(held.Load, errors.New("staging is down"), buffertest.OpPut)
		opts := uncountedOptions(t, mem)
		opts.MaxDiskBytes, opts.MaxSinkBytes, opts.MaxPendingBytes, opts.AdmissionWait = 4<<20, 2<<20, 1<<20, -1
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
		add := func(bytes int) error {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(1, strings.Repeat("x", bytes)), Count: 1})
			if err == nil {
				err = ticket.Wait(t.Context())
			}
			return err
		}
		refusing := func(sink, all time.Time) {
			t.Helper()
			st := b.Stats()
			if !st.Sinks[0].RefusingSince.Equal(sink) || !st.RefusingSince.Equal(all) {
				t.Errorf("the sink since %s, all since %s; want %s and %s", st.Sinks[0].RefusingSince, st.RefusingSince, sink, all)
			}
		}
		never := time.Time{}
		for b.Stats().Sinks[0].WaitingBytes < opts.MaxSinkBytes {
			must(t, add(512<<10))
		}
		refusing(never, never) // it is full, and no caller was refused
		time.Sleep(time.Minute)
		first := time.Now().UTC()
		for range 2 {
			if s.Full() == nil {
				t.Fatal("there is room")
			}
			refusing(first, never)
			time.Sleep(time.Minute)
		}
		var over *buffer.OverloadError
		for !errors.As(add(900<<10), &over) {
		}
		all := time.Now().UTC()
		if over.Resource != "disk" {
			t.Fatal(over)
		}
		time.Sleep(time.Minute)
		if err := add(900 << 10); !errors.As(err, &over) {
			t.Fatal(err)
		}
		refusing(first, all)
		if err := add(1); err != nil { // a small row passes, which does not end it
			t.Fatal(err)
		}
		refusing(first, all)
		held.Store(false)
		must(t, b.Sink("a").Flush(t.Context()))
		synctest.Wait()
		refusing(never, never)
		if err := add(900 << 10); err != nil || s.Full() != nil {
			t.Errorf("there is no room: %v", err)
		}
		held.Store(true)
		for b.Stats().Sinks[0].WaitingBytes < opts.MaxSinkBytes {
			must(t, add(512<<10))
		}
		time.Sleep(time.Minute)
		again := time.Now().UTC()
		if s.Full() == nil {
			t.Fatal("there is room")
		}
		refusing(again, never)
	})
}
