package buffer_test

import (
	"context"
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
	"github.com/forebay/forebay/internal/synctest"
)

// wide is a row of about a kilobyte.
func wide(id int) []byte { return row(id, strings.Repeat("x", 1000)) }

// Callers that wait come in while the target is slow, in their order, and every row is in the table once.
func TestCallersWaitForRoom(t *testing.T) {
	for name, set := range map[string]func(*buffer.Options){
		"memory": func(o *buffer.Options) { o.MaxPendingBytes, o.AdmissionWait = 1<<20, -1 },
		"disk":   func(o *buffer.Options) { o.MaxDiskBytes, o.MaxSinkBytes = 1<<20, 4<<20 },
		"sink":   func(o *buffer.Options) { o.MaxSinkBytes = 256 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &twist{Memory: buffertest.NewMemory(), importer: func(context.Context, *driver.File) error {
					time.Sleep(time.Second)
					return nil
				}}
				opts := memoryOptions(t, drv.Memory)
				opts.Target = drv
				set(&opts)
				b := open(t, opts)
				s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
				const callers, each = 20, 200
				var all sync.WaitGroup
				for c := range callers {
					all.Go(func() {
						var last buffer.Ticket
						for i := range each {
							var err error
							if last, err = b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: wide(c*each + i), Count: 1}); err != nil {
								t.Error(err)
								return
							}
							if st, _ := b.Sink("a").Stats(); name == "sink" && st.Local.StoredBytes+st.Staging.StoredBytes > opts.MaxSinkBytes+2000 {
								t.Errorf("got %d bytes waiting, want at most the share %d and 2000", st.Local.StoredBytes+st.Staging.StoredBytes, opts.MaxSinkBytes)
							}
						}
						if err := last.Wait(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				must(t, b.Sink("a").Flush(t.Context()))
				seen, last := map[string]bool{}, map[int]int{}
				for _, text := range ids(drv.Memory, "in.c-test.a") {
					var id int
					fmt.Sscan(text, &id)
					if seen[text] {
						t.Errorf("row %s is there twice", text)
					}
					seen[text] = true
					if id < last[id/each] {
						t.Errorf("row %d comes after %d of the same caller", id, last[id/each])
					}
					last[id/each] = id
				}
				if len(seen) != callers*each {
					t.Errorf("got %d rows, want %d", len(seen), callers*each)
				}
				verify(t, b)
			})
		})
	}
}

// stuck opens a buffer whose sink "a" is full and whose staging is away until the returned function is called.
func stuck(t *testing.T, set func(*buffer.Options)) (b *buffer.Buffer, a *buffer.DefinedSink, o *outage) {
	t.Helper()
	o = &outage{Memory: buffertest.NewMemory(), err: errors.New("away"), only: "a"}
	o.away.Store(true)
	opts := memoryOptions(t, o.Memory)
	opts.Staging, opts.Target = o, o
	set(&opts)
	b = open(t, opts)
	a = define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	for i := 0; ; i++ {
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: a, Data: wide(i), Count: 1})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if over := (*buffer.OverloadError)(nil); errors.As(err, &over) || a.Full() != nil {
			return b, a, o
		}
		must(t, err)
	}
}

func small(o *buffer.Options) { o.MaxSinkBytes = 64 << 10 }

// The first who came is the first who gets room, and whoever would not wait does not overtake.
func TestRoomIsGivenInTheOrderOfTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, a, o := stuck(t, small)
		var mu sync.Mutex
		var order []int
		for i := range 50 {
			go func() {
				// Each takes the whole share, so no two have room at once. What those do first is up to Go's scheduler.
				data := row(1000+i, strings.Repeat("x", 70_000))
				if _, err := b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: a, Data: data, Count: 1}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			synctest.Wait() // it stands in the line
		}
		if a.Full() == nil {
			t.Error("a full sink with callers that wait is not full")
		}
		o.away.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		must(t, b.Sink("a").Flush(t.Context()))
		var rows []int
		for _, id := range ids(o.Memory, "in.c-test.a") {
			var n int
			if fmt.Sscan(id, &n); n >= 1000 {
				rows = append(rows, n-1000)
			}
		}
		if len(rows) != 50 || len(order) != 50 {
			t.Fatalf("got %d rows of %d calls, want 50", len(rows), len(order))
		}
		for i := range rows {
			if rows[i] != i || order[i] != i {
				t.Fatalf("rows in the order %v, calls in the order %v", rows, order)
			}
		}
	})
}

// A full sink holds up only callers who have rows for it.
func TestAFullSinkHoldsUpItsOwnCallersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, a, o := stuck(t, small)
		other := define(t, b, "other")
		var waiting sync.WaitGroup
		for i := range 10 {
			waiting.Go(func() {
				if _, err := b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: other, Data: wide(i), Count: 1},
					buffer.Rows{Sink: a, Data: wide(1000 + i), Count: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		for i := range 100 {
			if _, err := b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: other, Data: wide(i), Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took > time.Second { // a commit may be waited for
			t.Errorf("the other sink waited %s", took)
		}
		o.away.Store(false)
		waiting.Wait()
	})
}

// When its context ends a waiting caller learns that nothing was taken, and why. The callers after it continue.
func TestWaitingEndsWithTheContext(t *testing.T) {
	for name, set := range map[string]func(*buffer.Options){
		"sink": small,
		"disk": func(o *buffer.Options) { o.MaxDiskBytes, o.MaxSinkBytes = 1<<20, 4<<20 },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "disk" {
				disktest.Mem(t) // where blocks are counted, the room comes back some time later
			}
			synctest.Test(t, func(t *testing.T) {
				b, a, o := stuck(t, set)
				before, _ := b.Sink("a").Stats()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				behind := make(chan error, 1)
				go func() {
					time.Sleep(time.Second)
					_, err := b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: a, Data: wide(2000), Count: 1})
					behind <- err
				}()
				_, err := b.AppendWhenRoom(ctx, time.Now(), buffer.Rows{Sink: a, Data: wide(1000), Count: 1})
				var over *buffer.OverloadError
				if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &over) || over.Resource != name {
					t.Errorf("got %v, want the end of the context and an OverloadError of %s", err, name)
				}
				o.away.Store(false)
				if err := <-behind; err != nil {
					t.Error(err)
				}
				must(t, b.Sink("a").Flush(t.Context()))
				if after, _ := b.Sink("a").Stats(); after.Target.Rows != before.Accepted+1 {
					t.Errorf("got %d rows after %d, want one more", after.Target.Rows, before.Accepted)
				}
				if st := b.Stats(); st.PendingBytes != 0 || a.Full() != nil {
					t.Errorf("%d bytes are reserved for nobody", st.PendingBytes)
				}
			})
		})
	}
}

// Close ends the waiting, and a call that never fits does not begin it.
func TestWaitingEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, a, _ := stuck(t, func(o *buffer.Options) { o.MaxDiskBytes, o.MaxSinkBytes = 1<<20, 1<<30 })
		done := make(chan error, 2)
		for i := range 2 {
			go func() {
				_, err := b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: a, Data: wide(i), Count: 1})
				done <- err
			}()
		}
		synctest.Wait()
		_, err := b.AppendWhenRoom(t.Context(), time.Now(), buffer.Rows{Sink: a, Data: row(1, strings.Repeat("x", 2<<20)), Count: 1})
		if large := (*buffer.TooLargeError)(nil); !errors.As(err, &large) || large.Option != "MaxDiskBytes" {
			t.Errorf("got %v, want a TooLargeError", err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-done; !errors.Is(err, buffer.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
	})
}

func TestOverloadByMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts.MaxPendingBytes, opts.AdmissionWait, opts.SyncInterval = 1<<20, -1, time.Hour
		b := open(t, opts)
		s := define(t, b, "a")
		big := row(0, strings.Repeat("x", 2<<20))
		_, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: big, Count: 1})
		var never *buffer.TooLargeError
		if !errors.As(err, &never) || never.Limit != 1<<20 {
			t.Fatalf("got %v, want a TooLargeError", err)
		}
		// Rows without a waiting caller fill the memory while the committer has no turn.
		var over *buffer.OverloadError
		for err = nil; err == nil; {
			_, err = b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: big[:100<<10], Count: 1})
		}
		if !errors.As(err, &over) || over.Resource != "memory" || over.RetryAfter <= 0 {
			t.Fatalf("got %v, want a memory OverloadError", err)
		}
		synctest.Wait() // the committer has made room
		put(t, b, s, 0, 1)
		if st := b.Stats(); st.OverloadsMemory != 1 || st.PendingBytes != 0 {
			t.Fatalf("stats %+v", st)
		}
	})
}

func TestOverloadByDisk(t *testing.T) {
	mem := buffertest.NewMemory()
	down := true
	var mu sync.Mutex
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if down && c.Op == buffertest.OpPut {
			return errors.New("staging is down")
		}
		return nil
	}
	opts := uncountedOptions(t, mem)
	opts.MaxDiskBytes = 1 << 20
	b := open(t, opts)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	n := 0
	var over *buffer.OverloadError
	for ; ; n++ {
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(n, strings.Repeat("x", 1000)), Count: 1})
		if errors.As(err, &over) {
			break
		}
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		must(t, err)
		if n > 2000 {
			t.Fatal("no overload")
		}
	}
	if over.Resource != "disk" || n < 900 {
		t.Fatalf("overload %v after %d rows", over, n)
	}
	mu.Lock()
	down = false
	mu.Unlock()
	must(t, b.Sink("a").Flush(t.Context()))
	put(t, b, s, n, n+10) // the room is back
	must(t, b.Sink("a").Flush(t.Context()))
	// Pressure has made several files, which may overtake each other after failures.
	seen := map[string]int{}
	for _, id := range ids(mem, "in.c-test.a") {
		seen[id]++
	}
	for i := range n + 10 {
		if seen[fmt.Sprint(i)] != 1 {
			t.Fatalf("row %d is %d times in the table", i, seen[fmt.Sprint(i)])
		}
	}
	if len(seen) != n+10 {
		t.Fatalf("got %d rows in the table, want %d", len(seen), n+10)
	}
}

// An outage of the target must not fill staging without bound.
func TestBacklogInStagingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var down atomic.Bool
		down.Store(true)
		mem.Before = failWhile(down.Load, errors.New("the target is down"), buffertest.OpImport)
		opts := uncountedOptions(t, mem)
		opts.MaxDiskBytes = 1 << 20
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None; c.Upload.Size = 100 << 10 })
		var over *buffer.OverloadError
		n := 0
		for ; n < 1000 && over == nil; n++ {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(n, strings.Repeat("x", 10<<10)), Count: 1})
			if errors.As(err, &over) {
				break
			}
			must(t, err)
			must(t, ticket.Wait(t.Context()))
			synctest.Wait()
		}
		if over == nil || over.Resource != "disk" || n < 50 {
			t.Fatalf("after %d rows of 10 KiB: %v, want an overload of the disk at 1 MiB", n, over)
		}
		if over := s.Full(); over == nil {
			t.Error("the sink is over its share and does not say so")
		}
		down.Store(false)
		must(t, b.Sink("a").Flush(t.Context()))
		synctest.Wait()
		put(t, b, s, n, n+1)
		if s.Full() != nil {
			t.Error("the sink is still full after its rows have gone")
		}
	})
}
