package buffer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

func keyOf(n int) (k buffer.Key) {
	copy(k[:], fmt.Sprintf("%016d", n))
	return k
}

// storeOnce appends a row under a key unless a receipt says that the sink has it, and reports whether it did.
func storeOnce(t *testing.T, b *buffer.Buffer, key int, sinks ...*buffer.DefinedSink) (appended int, err error) {
	t.Helper()
	c, err := b.Claim(t.Context(), keyOf(key))
	if err != nil {
		return 0, err
	}
	defer c.Release()
	var rows []buffer.Rows
	for _, s := range sinks {
		if !slices.ContainsFunc(c.Receipts(), func(r buffer.Receipt) bool { return r.SinkID == s.ID() && string(r.Data) == fmt.Sprint(key) }) {
			rows = append(rows, buffer.Rows{Sink: s, Data: row(key, "v"), Count: 1, Claim: c, Receipt: fmt.Append(nil, key)})
		}
	}
	if len(rows) == 0 {
		return 0, nil
	}
	ticket, err := b.Append(t.Context(), time.Now(), rows...)
	if err == nil {
		err = ticket.Wait(t.Context())
	}
	return len(rows), err
}

// mustOnce is storeOnce for a store that works.
func mustOnce(t *testing.T, b *buffer.Buffer, key int, sinks ...*buffer.DefinedSink) int {
	t.Helper()
	n, err := storeOnce(t, b, key, sinks...)
	must(t, err)
	return n
}

// A call that is repeated after a power cut finds its rows, if they are on disk, and is stored again if they are not.
// Nothing is doubled and nothing is lost, wherever the power fails.
func TestReceiptsSurviveAPowerCut(t *testing.T) {
	seed := seedtest.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		fs := disktest.New(t)
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts = localdisk.On(opts, fs)
		b := openAt(t, "data", opts)
		sinks := []*buffer.DefinedSink{define(t, b, "a"), define(t, b, "b")}
		var acknowledged atomic.Int64
		var wg sync.WaitGroup
		cut := make(chan *disktest.Disk, 1)
		const clients, calls = 4, 10
		at := 1 + rng.IntN(clients*calls)
		keep := rng.IntN(101)
		unsynced := rand.New(rand.NewPCG(seed, 1))
		acked := make([]atomic.Bool, clients*calls)
		var onDisk []bool // acknowledged before the cut
		for c := range clients {
			wg.Go(func() {
				for i := range calls {
					key := c*calls + i
					if _, err := storeOnce(t, b, key, sinks...); err != nil {
						t.Error(err)
					}
					acked[key].Store(true)
					if acknowledged.Add(1) == int64(at) {
						for k := range acked {
							onDisk = append(onDisk, acked[k].Load())
						}
						cut <- fs.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: unsynced})
					}
				}
			})
		}
		wg.Wait()
		closeBuffer(t, b)

		mem = buffertest.NewMemory() // uploads of the old process after the cut are not of this world
		opts = localdisk.On(opts, <-cut)
		opts.Staging, opts.Target = mem, mem
		b = openAt(t, "data", opts)
		sinks = []*buffer.DefinedSink{define(t, b, "a"), define(t, b, "b")}
		for key := range clients * calls {
			if n := mustOnce(t, b, key, sinks...); n > 0 && onDisk[key] {
				t.Errorf("call %d was acknowledged and is stored again at %d sinks", key, n)
			}
		}
		for _, id := range []string{"a", "b"} {
			flush(t, b, id)
			got := ids(mem, "in.c-test."+id)
			slices.Sort(got)
			if n := len(got); n != clients*calls || len(slices.Compact(got)) != n {
				t.Errorf("sink %s has %d rows, %d of them different, want %d", id, n, len(slices.Compact(got)), clients*calls)
			}
		}
		verify(t, b)
		closeBuffer(t, b)
	}
}

// Concurrent calls with one key take turns, even when the caller of the first has gone before its row is on disk.
func TestOneCallAKeyAtATime(t *testing.T) {
	mem := buffertest.NewMemory()
	gate := &slowLog{FS: disktest.New(t), gate: make(chan struct{}, 1)}
	opts := memoryOptions(t, mem)
	opts = localdisk.On(opts, gate)
	b := open(t, opts)
	s := define(t, b, "a")
	gate.hold()
	first, err := b.Claim(t.Context(), keyOf(1))
	must(t, err)
	if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(1, "v"), Count: 1, Claim: first, Receipt: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	first.Release()
	first.Release()
	var stored atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n, err := storeOnce(t, b, 1, s)
			if err != nil {
				t.Error(err)
			}
			stored.Add(int64(n))
		})
	}
	n := mustOnceHeld(t, b, gate, s)
	wg.Wait()
	if stored.Load() != 0 || n != 1 {
		t.Errorf("the row was stored %d times more, and the row of another key %d times", stored.Load(), n)
	}
	flush(t, b, "a")
	if got := ids(mem, "in.c-test.a"); len(got) != 2 {
		t.Errorf("the table has %v", got)
	}
}

// mustOnceHeld stores a row under another key once the log resumes.
func mustOnceHeld(t *testing.T, b *buffer.Buffer, gate *slowLog, s *buffer.DefinedSink) int {
	t.Helper()
	gate.release()
	return mustOnce(t, b, 2, s)
}

// A commit that failed has an unknown outcome. A repetition waits for the store to be open again, and then knows.
func TestReceiptOfAFailedCommit(t *testing.T) {
	for _, reaches := range []bool{true, false} { // the disk, although the sync fails
		mem := buffertest.NewMemory()
		var fail atomic.Bool
		opts := memoryOptions(t, mem)
		opts = localdisk.On(opts, disktest.Wrap(disktest.New(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !fail.Load() || !strings.HasSuffix(op.Path, ".log") {
				return nil
			}
			switch op.Kind {
			case errorfs.OpFileWrite:
				if !reaches {
					return syscall.EIO
				}
			case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
				return syscall.EIO
			}
			return nil
		})))
		opts.Retry = buffer.Retry{Initial: time.Millisecond, Max: time.Millisecond}
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		fail.Store(true)
		var failed *buffer.FailedError
		if _, err := storeOnce(t, b, 1, s); !errors.As(err, &failed) {
			t.Fatalf("reaches %t: %v", reaches, err)
		}
		fail.Store(false)
		stored := 0
		eventually(t, func() bool {
			n, err := storeOnce(t, b, 1, s)
			if err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			stored = n
			return err == nil
		})
		if want := map[bool]int{true: 0, false: 1}[reaches]; stored != want {
			t.Errorf("reaches %t: the repetition has stored %d rows, want %d", reaches, stored, want)
		}
		flush(t, b, "a")
		if got := ids(mem, "in.c-test.a"); len(got) != 1 {
			t.Errorf("reaches %t: the table has %v", reaches, got)
		}
		verify(t, b)
		closeBuffer(t, b)
	}
}

// Keys are known for their retention, through restarts, and then leave the disk and the memory, even without traffic.
func TestReceiptsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		begin := time.Now()
		known := func(key int, want bool) {
			t.Helper()
			if n := mustOnce(t, b, key, s); (n == 0) != want {
				t.Errorf("after %s: key %d is known: %t, want %t", time.Since(begin), key, n == 0, want)
			}
		}
		for key := range 24 { // in several segments
			known(key, false)
			time.Sleep(59 * time.Minute)
		}
		time.Sleep(-time.Minute + time.Hour*24 - time.Since(begin))
		closeBuffer(t, b)
		b = openAt(t, "data", opts)
		s = define(t, b, "a")
		for key := range 24 {
			known(key, true)
		}
		time.Sleep(2 * time.Minute)
		known(0, false)
		known(1, true)
		time.Sleep(24*time.Hour + 24*time.Hour/16)
		synctest.Wait()
		if st := b.Stats(); st.Keys != 0 || st.KeyBytes != 0 || st.KeysForgotten != 0 {
			t.Errorf("after their time %d keys of %d bytes are left, %d were forgotten early", st.Keys, st.KeyBytes, st.KeysForgotten)
		}
		closeBuffer(t, b)
		b = openAt(t, "data", opts)
		if st := b.Stats(); st.Keys != 0 {
			t.Errorf("%d keys are left on disk, want 0", st.Keys)
		}
		closeBuffer(t, b)
	})
}

// At the bound the oldest keys are forgotten, never the last, and calls continue.
func TestReceiptsAreBounded(t *testing.T) {
	var log bytes.Buffer
	for _, bound := range []string{"keys", "bytes"} {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		size := 1
		if bound == "keys" {
			opts.MaxKeys = 1000
		} else {
			opts.MaxKeyBytes = 1 << 20
			size = 2 << 10
		}
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put := func(key int) bool {
			c, err := b.Claim(t.Context(), keyOf(key))
			must(t, err)
			defer c.Release()
			if len(c.Receipts()) > 0 {
				return false
			}
			mustStore(t, b, buffer.Rows{Sink: s, Data: row(key, "v"), Count: 1, Claim: c, Receipt: make([]byte, size)})
			return true
		}
		const calls = 1500
		for key := range calls {
			put(key)
			if st := b.Stats(); st.Keys > 1000 || st.KeyBytes > 1<<20 && bound == "bytes" {
				t.Fatalf("%s: got %d keys of %d bytes, want at most 1000 keys, and 1 MiB if bytes are bounded", bound, st.Keys, st.KeyBytes)
			}
		}
		st := b.Stats()
		if st.Keys+st.KeysForgotten != calls || st.Keys < 1000*13/16 && bound == "keys" || st.KeyBytes < 13<<16 && bound == "bytes" {
			t.Errorf("%s: %d keys of %d bytes are left, %d were forgotten", bound, st.Keys, st.KeyBytes, st.KeysForgotten)
		}
		closeBuffer(t, b)
		b = openAt(t, "data", opts)
		s = define(t, b, "a")
		if after := b.Stats(); after.Keys != st.Keys || after.KeyBytes != st.KeyBytes {
			t.Errorf("%s: got %d keys of %d bytes after a restart, want %d of %d", bound, after.Keys, after.KeyBytes, st.Keys, st.KeyBytes)
		}
		if put(calls-1) || put(calls-300) || !put(0) {
			t.Errorf("%s: not the oldest keys were forgotten", bound)
		}
		closeBuffer(t, b)
	}
	if n := strings.Count(log.String(), "keys of calls forgotten early"); n != 2 {
		t.Errorf("logged %d times, want once for each buffer:\n%s", n, &log)
	}
}

// A copy knows the calls whose rows it has, and a store that was damaged elsewhere keeps its keys.
func TestReceiptsInCopiesAndAfterDamage(t *testing.T) {
	fs := disktest.New(t)
	opts := memoryOptions(t, buffertest.NewMemory())
	opts = localdisk.On(opts, fs)
	b := openAt(t, "data", opts)
	s := define(t, b, "a")
	for key := range 100 {
		mustOnce(t, b, key, s)
	}
	must(t, b.Checkpoint(t.Context(), "copy"))
	mustOnce(t, b, 100, s)
	closeBuffer(t, b)
	copied := openAt(t, "copy", opts)
	s = define(t, copied, "a")
	for key := range 101 {
		if n := mustOnce(t, copied, key, s); (n == 0) != (key < 100) {
			t.Errorf("copy: call %d has stored %d rows", key, n)
		}
	}
	closeBuffer(t, copied)

	names, err := fs.List("data")
	must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") {
			rot(t, fs, "data/"+name, func(int) int { return 10 })
		}
	}
	b = openAt(t, "data", opts)
	if list, err := b.Damaged(t.Context()); err != nil || len(list) > 0 {
		t.Logf("damage: %v, %v", list, err)
	}
	s = define(t, b, "a")
	for key := range 101 {
		if n := mustOnce(t, b, key, s); n != 0 {
			t.Errorf("salvaged: call %d is stored again", key)
		}
	}
	flush(t, b, "a") // the copy may have deleted the staged object
	verify(t, b)
	closeBuffer(t, b)
}

// What a forgotten sink had is not taken for stored, because its table is gone, too.
func TestReceiptOfAForgottenSink(t *testing.T) {
	mem := buffertest.NewMemory()
	b := open(t, memoryOptions(t, mem))
	s := define(t, b, "a")
	mustOnce(t, b, 1, s)
	flush(t, b, "a")
	must(t, b.Sink("a").Drop(t.Context()))
	must(t, b.Sink("a").Forget(t.Context()))
	s = define(t, b, "a")
	for i, want := range []int{1, 0} {
		if n := mustOnce(t, b, 1, s); n != want {
			t.Errorf("call %d has stored %d rows, want %d", i, n, want)
		}
	}
}

// A caller that does not wait for its turn to come leaves no state.
func TestGivenUpTurn(t *testing.T) {
	b := open(t, memoryOptions(t, buffertest.NewMemory()))
	s := define(t, b, "a")
	held, err := b.Claim(t.Context(), keyOf(1))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error)
	go func() {
		_, err := b.Claim(ctx, keyOf(1))
		given <- err
	}()
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("the second caller got %v", err)
	}
	held.Release()
	if n := mustOnce(t, b, 1, s); n != 1 {
		t.Errorf("%d rows are stored after nothing was, want 1", n)
	}
}
