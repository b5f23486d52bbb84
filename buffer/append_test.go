package buffer_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

func TestRowsReachTheTableInOrder(t *testing.T) {
	for _, enc := range []driver.Encoding{driver.None, driver.Gzip, driver.Zstd} {
		t.Run(enc.String(), func(t *testing.T) {
			mem := buffertest.NewMemory()
			b := open(t, memoryOptions(t, mem))
			s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = enc; c.Upload.Count = 50 })
			put(t, b, s, 0, 500)
			verify(t, b)
			must(t, b.Sink("a").Flush(t.Context()))
			wantIDs(t, mem, "in.c-test.a", 0, 500)
			verify(t, b)
		})
	}
}

func TestBatchesLargerThanAChunk(t *testing.T) {
	mem := buffertest.NewMemory()
	b := open(t, memoryOptions(t, mem))
	s := define(t, b, "a")
	var data []byte
	n := 0
	for ; len(data) < 3<<20; n++ {
		data = append(data, row(n, strings.Repeat("x", 1000))...)
	}
	mustStore(t, b, buffer.Rows{Sink: s, Data: data, Count: n})
	put(t, b, s, n, n+10)
	must(t, b.Sink("a").Flush(t.Context()))
	wantIDs(t, mem, "in.c-test.a", 0, n+10)
}

func TestRowsNobodyWaitsForAreSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := disktest.New(t)
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts = localdisk.On(opts, fs)
		b := open(t, opts)
		s := define(t, b, "a")
		for i := range 10 {
			if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "v"), Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		opts = localdisk.On(opts, fs.Cut(vfs.CrashCloneCfg{})) // nothing that was not synced survives
		after := open(t, opts)
		if got, want := state(after, "a"), "accepted 10 local 10 staging 0 target 0 expired 0 files [writing/]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestCloseKeepsWhatNobodyWaitedFor(t *testing.T) {
	fs := disktest.New(t)
	mem := buffertest.NewMemory()
	opts := memoryOptions(t, mem)
	opts = localdisk.On(opts, fs)
	opts.SyncInterval = time.Hour
	b, err := buffer.Open("data", opts)
	must(t, err)
	s := define(t, b, "a")
	for i := range 1000 {
		if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "v"), Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, b.Close())
	if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(0, ""), Count: 1}); !errors.Is(err, buffer.ErrClosed) {
		t.Fatalf("append after close: %v, want ErrClosed", err)
	}
	if err := b.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
	again := open(t, opts)
	must(t, again.Sink("a").Flush(t.Context()))
	wantIDs(t, mem, "in.c-test.a", 0, 1000)
}

// Rows for two sinks that arrive while the buffer closes are in both or in none, and the result says which.
func TestAppendAtCloseIsAllOrNone(t *testing.T) {
	for round := range 20 {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		b, err := buffer.Open("data", opts)
		must(t, err)
		s1, s2 := define(t, b, "a"), define(t, b, "b")
		var accepted int64
		var appender sync.WaitGroup
		begun := make(chan struct{})
		appender.Go(func() {
			for i := 0; ; i++ {
				_, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s1, Data: row(i, "v"), Count: 1},
					buffer.Rows{Sink: s2, Data: row(i, "v"), Count: 1})
				if i == round*10 {
					close(begun)
				}
				if err != nil {
					if !errors.Is(err, buffer.ErrClosed) {
						t.Error(err)
					}
					return
				}
				accepted++
			}
		})
		<-begun
		must(t, b.Close())
		appender.Wait()
		after := open(t, opts)
		for _, id := range []string{"a", "b"} {
			if st, _ := after.Sink(id).Stats(); st.Accepted != accepted {
				t.Fatalf("round %d: sink %s has %d rows, %d were accepted", round, id, st.Accepted, accepted)
			}
		}
	}
}

// Many callers append a row at a time to many sinks, so that callers compress them. Every row goes to its table once and
// in the order of its sink, whichever rows share a commit.
func TestRowsOfManySinksGoToTheirTables(t *testing.T) {
	const (
		sinks  = 200
		rounds = 6
	)
	mem := buffertest.NewMemory()
	b := open(t, memoryOptions(t, mem))
	handles := make([]*buffer.DefinedSink, sinks)
	for i := range handles {
		handles[i] = define(t, b, fmt.Sprintf("s%d", i))
	}
	value := strings.Repeat("the gate opens when the basin is full ", 30)
	next := make([]int, sinks)
	for round := range rounds {
		var callers sync.WaitGroup
		for i, s := range handles {
			from := next[i]
			if next[i]++; i%7 == round { // some sinks have more rows than the others
				next[i] += 2
			}
			callers.Go(func() {
				for id := from; id < next[i]; id++ {
					ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, value), Count: 1})
					if err == nil && id == next[i]-1 {
						err = ticket.Wait(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
	}
	verify(t, b)
	for i, s := range handles {
		must(t, b.Sink(s.ID()).Flush(t.Context()))
		wantIDs(t, mem, "in.c-test."+s.ID(), 0, next[i])
	}
	verify(t, b)
}
