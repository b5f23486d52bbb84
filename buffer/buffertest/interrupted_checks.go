package buffertest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// fading is a context that ends when it is looked at for the nth time, so that a call ends between any two of its steps.
type fading struct {
	context.Context
	end  context.CancelFunc
	left atomic.Int64
}

func newFading(ctx context.Context, n int) *fading {
	f := &fading{}
	f.Context, f.end = context.WithCancel(ctx)
	f.left.Store(int64(n))
	return f
}

func (f *fading) use() {
	if f.left.Add(-1) == 0 {
		f.end()
	}
}

func (f *fading) Done() <-chan struct{} {
	f.use()
	return f.Context.Done()
}

func (f *fading) Err() error {
	f.use()
	return f.Context.Err()
}

// maxInterruptions bounds the imports of importInterrupted.
const maxInterruptions = 40

// importInterrupted imports files one after the other. Each context ends a little later than the one before, counted
// in looks at it, until an import ends first. So a driver that commits the rows and the id separately is
// caught between the two.
func importInterrupted(t tb, b *bench) {
	if b.atLeastOnce {
		t.Skipf("the target promises at least once")
	}
	table := eventsTable()
	b.mustEnsure(table)
	var stored []*testFile
	for i, n := 0, 1; i < maxInterruptions; i, n = i+1, n+1+n/10 {
		f := newFile(fmt.Sprintf("file-%d", i), table, makeRows(uint64(i), 3, 3))
		ctx := newFading(t.Context(), n)
		err := b.importFile(ctx, f)
		ended := ctx.left.Load() <= 0
		ctx.end()
		if got := len(b.read(table.ID)); got != 3*i && got != 3*(i+1) {
			t.Fatalf("the context ended at look %d of Import, and the table has %d rows, want the %d of before or %d: "+
				"commit all rows of a file together", n, got, 3*i, 3*(i+1))
		}
		if err == nil && !ended {
			b.expectFiles(table.ID, append(stored, f)...)
			return
		}
		if err := b.importFile(t.Context(), f); err != nil {
			t.Fatalf("Import after one whose context ended = %v, want nil", err)
		}
		stored = append(stored, f)
		if got := len(b.read(table.ID)); got != 3*len(stored) {
			t.Fatalf("the context ended at look %d of Import (%v), and the next attempt left %d rows of the file instead of 3: "+
				"commit the id in the same transaction as the rows", n, err, got-3*i)
		}
		b.expectCount(table, f.id, 3)
	}
	b.expectFiles(table.ID, stored...)
}

// besideWait is how long an attempt is held for a concurrent one, which may be waiting for the first one's lock.
const besideWait = 200 * time.Millisecond

// importBesideAbandoned runs the next attempt while one that the buffer has abandoned is reading its second slice. Each has its own
// driver, as after a restart, and they share only the target.
func importBesideAbandoned(t tb, b *bench) {
	switch {
	case b.atLeastOnce:
		t.Skipf("the target promises at least once")
	case b.reopen == nil:
		t.Skipf("the harness has no Reopen")
	case b.staging != nil:
		t.Skipf("the target reads slices by itself")
	}
	f := newFile("file-1", eventsTable(), makeRows(1, 60, 3))
	b.mustEnsure(f.table)
	abandoned := newFile(f.id, f.table, f.rows())
	reading, release := make(chan struct{}), make(chan struct{})
	abandoned.fault = heldAt(1, reading, release)
	next := *b
	next.Target = b.reopen()
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.importFile(t.Context(), abandoned) })
	<-reading
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		_ = next.importFile(t.Context(), newFile(f.id, f.table, f.rows())) // it may give up on a lock
	})
	select {
	case <-done:
	case <-time.After(besideWait):
	}
	close(release)
	wg.Wait()
	next.mustImport(f)
	if got := len(b.read(f.table.ID)); got != 60 {
		t.Errorf("two attempts of one file beside each other, with a driver each, left %d rows, want 60: the target itself must refuse "+
			"a second id, in the transaction of the rows. To look for the id before, or a mutex, is not enough", got)
	}
	next.expectCount(f.table, f.id, 60)
}

// heldAt makes a fault that says when slice n is read, and waits before its first byte.
func heldAt(n int, reading, release chan struct{}) func(int, []byte) (io.Reader, error) {
	var once sync.Once
	return func(i int, data []byte) (io.Reader, error) {
		if i != n {
			return nil, nil
		}
		return io.MultiReader(&waiting{func() {
			once.Do(func() { close(reading) })
			<-release
		}}, broken(data, whole)), nil
	}
}

// waiting is an empty reader that waits.
type waiting struct{ wait func() }

func (w *waiting) Read([]byte) (int, error) {
	w.wait()
	return 0, io.EOF
}
