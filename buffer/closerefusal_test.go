package buffer_test

import (
	"context"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
)

// Close returns although a target refuses a row after Close has begun, and the rows stay for the next process.
func TestCloseWhileATargetRefusesRows(t *testing.T) {
	mem := buffertest.NewMemory()
	mem.Refuse = refuseBad
	importing := make(chan struct{})
	mem.Before = func(ctx context.Context, c buffertest.Call) error {
		if c.Op != buffertest.OpImport {
			return nil
		}
		close(importing)
		<-ctx.Done() // Close cancels the call
		return &driver.RowsError{Rows: []driver.RowError{refuseBad("", []string{"0", bad})}}
	}
	dir, opts := t.TempDir(), memoryOptions(t, mem)
	b := openAt(t, dir, opts)
	s := define(t, b, "a", quarantined())
	put1(t, b, s, 0, bad)
	put1(t, b, s, 1, "v")
	flushed := make(chan error, 1)
	go func() { flushed <- b.Sink("a").Flush(t.Context()) }()
	<-importing
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("Close has not returned after a minute: it waits for the import, which waits for Close")
	}
	<-flushed

	mem.Before = nil
	b = openAt(t, dir, opts)
	define(t, b, "a", quarantined())
	flush(t, b, "a")
	wantSplit(t, b, mem, 2, func(i int) bool { return i == 0 })
	closeBuffer(t, b)
}
