package buffer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// Who waits for a file that is discarded gets a HeldError. A file that does not wait, or is of another sink, is unknown.
func TestDiscardErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		mem.Before = (&gated{}).before
		b := open(t, memoryOptions(t, mem))
		put(t, b, define(t, b, "a"), 0, 5)
		barrier := make(chan error)
		go func() { barrier <- b.Sink("a").Flush(t.Context()) }()
		synctest.Wait() // until the import has failed
		id := waitingFile(t, b)
		define(t, b, "b")
		if err := b.Sink("b").Discard(t.Context(), id); !errors.Is(err, buffer.ErrUnknownFile) {
			t.Errorf("wrong sink: %v", err)
		}
		if err := b.Sink("none").Discard(t.Context(), id); !errors.Is(err, buffer.ErrUnknownSink) {
			t.Errorf("no sink: %v", err)
		}
		if err := b.Sink("a").Discard(t.Context(), "x-f1"); !errors.Is(err, buffer.ErrUnknownFile) {
			t.Errorf("no file: %v", err)
		}
		must(t, b.Sink("a").Discard(t.Context(), id))
		var held *buffer.HeldError
		if err := <-barrier; !errors.As(err, &held) {
			t.Errorf("flush of a file that was discarded: %v", err)
		}
		if err := b.Sink("a").Discard(t.Context(), id); !errors.Is(err, buffer.ErrUnknownFile) {
			t.Errorf("twice: %v", err)
		}
	})
}

// The staged objects of a discarded file are deleted even if the process ends first.
func TestDiscardedFileIsCleanedUpAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var up atomic.Bool
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if !up.Load() && (c.Op == buffertest.OpImport || c.Op == buffertest.OpDelete) {
				return errors.New("down")
			}
			return nil
		}
		opts := memoryOptions(t, mem)
		b := open(t, opts)
		put(t, b, define(t, b, "a"), 0, 5)
		barrier, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Sink("a").Flush(barrier); err == nil {
			t.Fatal("flush succeeds while the target is down")
		}
		must(t, b.Sink("a").Discard(t.Context(), waitingFile(t, b)))
		synctest.Wait() // until the clean-up has failed
		if len(mem.Objects()) != 1 {
			t.Fatalf("staging has %v, want one object", mem.Objects())
		}
		must(t, b.Close())
		up.Store(true)
		b = open(t, opts)
		synctest.Wait()
		if len(mem.Objects()) != 0 {
			t.Errorf("staging still has %v", mem.Objects())
		}
		if st, _ := b.Sink("a").Stats(); st.Discarded.Rows != 5 || len(st.Slices) != 0 {
			t.Errorf("discarded %d rows, slices %v", st.Discarded.Rows, st.Slices)
		}
	})
}

// A file whose rows are still on the local disk leaves it when it is discarded.
func TestDiscardedFileLeavesTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpPut {
				return errors.New("down")
			}
			return nil
		}
		b := open(t, memoryOptions(t, mem))
		put(t, b, define(t, b, "a"), 0, 5)
		if err := b.Sink("a").CloseFile(t.Context(), trigger.Requested); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the upload has failed
		if st := b.Stats(); st.LocalBytes == 0 {
			t.Fatal("no rows are on the local disk before the file is discarded")
		}
		if err := b.Sink("a").Discard(t.Context(), waitingFile(t, b)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := b.Stats(); st.LocalBytes != 0 || st.Sinks[0].Discarded.Rows != 5 {
			t.Errorf("%d bytes are on the local disk and %d rows are discarded, want 0 and 5", st.LocalBytes, st.Sinks[0].Discarded.Rows)
		}
		verify(t, b)
	})
}

// waitingFile returns the id of the first file that is not in its table.
func waitingFile(t *testing.T, b *buffer.Buffer) string {
	t.Helper()
	for _, f := range b.Stats().Sinks[0].Files {
		if f.State == buffer.FileWriting || f.State == buffer.FileClosing || f.State == buffer.FileImporting {
			return f.ID
		}
	}
	t.Fatal("no file waits")
	return ""
}

// An import that runs while its file is to be discarded wins, and its rows are in the table.
func TestDiscardWaitsForARunningImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		proceed := make(chan struct{})
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport {
				<-proceed
			}
			return nil
		}
		b := open(t, memoryOptions(t, mem))
		put(t, b, define(t, b, "a"), 0, 5)
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait()
		discarded := make(chan error)
		go func() { discarded <- b.Sink("a").Discard(t.Context(), waitingFile(t, b)) }()
		synctest.Wait()
		close(proceed)
		if err := <-discarded; !errors.Is(err, buffer.ErrUnknownFile) {
			t.Errorf("discard of a file that was being imported: %v", err)
		}
		wantIDs(t, mem, "in.c-test.a", 0, 5)
		verify(t, b)
	})
}

// Rows that arrived while a call waited for its turn are not lost with the rows that the caller has agreed to lose.
func TestDiscardUpToKeepsAFileThatGrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		proceed := make(chan struct{})
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpPut {
				<-proceed
			}
			return nil
		}
		b := open(t, memoryOptions(t, mem))
		sink := define(t, b, "a")
		put(t, b, sink, 0, 5)
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait() // until the upload of the first file has the turn
		put(t, b, sink, 5, 8)
		id := ""
		for _, f := range b.Stats().Sinks[0].Files {
			if f.State == buffer.FileWriting {
				id = f.ID
			}
		}
		result := make(chan error)
		discard := func(rows int64) { result <- b.Sink("a").DiscardUpTo(t.Context(), id, rows) }
		go discard(3)
		synctest.Wait()
		put(t, b, sink, 8, 9)
		close(proceed)
		grew := (*buffer.FileGrewError)(nil)
		if err := <-result; !errors.As(err, &grew) || grew.Rows != 4 || grew.Sink != "a" || grew.File != id {
			t.Fatalf("discard of 3 rows of a file that has 4: %v", err)
		}
		if st, _ := b.Sink("a").Stats(); st.Discarded.Rows != 0 || st.Local.Rows != 4 {
			t.Errorf("got %d rows discarded and %d waiting, want 0 and 4", st.Discarded.Rows, st.Local.Rows)
		}
		go discard(4)
		must(t, <-result)
		if st, _ := b.Sink("a").Stats(); st.Discarded.Rows != 4 {
			t.Errorf("got %d rows discarded, want 4", st.Discarded.Rows)
		}
		verify(t, b)
	})
}
