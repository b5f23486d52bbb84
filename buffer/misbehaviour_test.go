package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// Drivers that break their contract, and folders that vanish. Each case is a failure of its own attempt and of nothing
// else.

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text } // panics on a nil pointer

// twist is a driver whose calls are replaced.
type twist struct {
	*buffertest.Memory
	put      func(ctx context.Context, obj buffer.Object, src buffer.Source) error
	importer func(ctx context.Context, f *buffer.File) error
}

func (t *twist) Put(ctx context.Context, obj buffer.Object, src buffer.Source) error {
	if t.put != nil {
		return t.put(ctx, obj, src)
	}
	return t.Memory.Put(ctx, obj, src)
}

func (t *twist) Import(ctx context.Context, f *buffer.File) error {
	if t.importer != nil {
		if err := t.importer(ctx, f); err != nil {
			return err
		}
	}
	return t.Memory.Import(ctx, f)
}

// withTwist runs a test on a fake clock with one row that waits.
func withTwist(t *testing.T, drv *twist, check func(t *testing.T, b *buffer.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		drv.Memory = buffertest.NewMemory()
		opts := memoryOptions(drv.Memory)
		opts.Staging, opts.Target, opts.AttemptTimeout = drv, drv, time.Minute
		b := open(t, opts)
		put(t, b, define(t, b, "a"), 0, 1)
		check(t, b)
	})
}

// once returns the result of the first call, and nil afterwards.
func once(call func(ctx context.Context) error) func(context.Context, *buffer.File) error {
	var called atomic.Bool
	return func(ctx context.Context, _ *buffer.File) error {
		if called.Swap(true) {
			return nil
		}
		return call(ctx)
	}
}

func TestMisbehavingDriversFailTheirAttemptAlone(t *testing.T) {
	for name, call := range map[string]func(context.Context) error{
		"panics":                          func(context.Context) error { panic("oh") },
		"returns an error that panics":    func(context.Context) error { var e *nilError; return e },
		"ends its goroutine":              func(context.Context) error { runtime.Goexit(); return nil },
		"returns a text without an end":   func(context.Context) error { return errors.New(strings.Repeat("x", 8<<20)) },
		"returns a text that is not text": func(context.Context) error { return errors.New("\xff\xfe") },
	} {
		t.Run(name, func(t *testing.T) {
			drv := &twist{importer: once(call)}
			withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
				if err := b.CloseFile(t.Context(), "a", 1); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				st, _ := b.SinkStats("a")
				if f := st.Files[0]; f.Attempt != 1 || f.RetryReason == "" || len(f.RetryReason) > 8<<10 {
					t.Fatalf("attempt %d, reason %.100q (%d bytes)", f.Attempt, f.RetryReason, len(f.RetryReason))
				}
				if err := b.Flush(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
				wantIDs(t, drv.Memory, "in.c-test.a", 0, 1)
			})
		})
	}
}

// A call that ignores its context is left alone after its time, and neither holds up its sink nor Close.
func TestHangingDriverIsLeftAlone(t *testing.T) {
	release := make(chan struct{})
	drv := &twist{importer: once(func(context.Context) error { <-release; return errors.New("late") })}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		release = make(chan struct{}) // of the bubble
		if err := b.CloseFile(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		wantIDs(t, drv.Memory, "in.c-test.a", 0, 1)
		close(release)
	})
}

// A reader that Put forgets ends with Put, so it cannot keep the store open.
func TestForgottenReaderEndsWithPut(t *testing.T) {
	drv := &twist{put: func(_ context.Context, _ buffer.Object, src buffer.Source) error {
		rc, err := src.Open()
		if err != nil {
			return err
		}
		var one [1]byte
		_, _ = rc.Read(one[:])
		return errors.New("connection refused")
	}}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		if err := b.CloseFile(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("Close waited %s", took)
		}
	})
}

func TestHeldErrorCountsTheRows(t *testing.T) {
	drv := &twist{importer: func(ctx context.Context, _ *buffer.File) error { <-ctx.Done(); return ctx.Err() }}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var held *buffer.HeldError
		if err := b.Flush(ctx, "a"); !errors.As(err, &held) || held.Rows != 1 || strings.Contains(err.Error(), "0 failed") {
			t.Errorf("%v, want a HeldError of 1 row", err)
		}
	})
}

// The folder of the local level goes away under a running engine. Going on in a new folder would give ids a second time,
// and the target would take rows that were acknowledged for rows that it has already: so nothing is acknowledged then.
func TestVanishedFolderIsNotReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	mem := buffertest.NewMemory()
	opts := buffer.Options{
		Staging: mem, Target: mem, MemTableBytes: 1 << 20,
		Retry: buffer.Retry{Initial: time.Millisecond, Max: 20 * time.Millisecond},
	}
	b, err := buffer.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = buffer.None })
	put(t, b, s, 0, 1)
	if err := b.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	var failed *buffer.FailedError
	pad := strings.Repeat("abcdefgh", 8<<10)
	for i := 1; i < 1000 && failed == nil; i++ { // until the log has to be rotated
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, pad), Count: 1})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
	}
	if failed == nil {
		t.Fatal("the store did not notice")
	}
	for i := range 100 { // over many attempts to reopen
		if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "after"), Count: 1}); err == nil {
			t.Fatal("rows were taken into a folder that is not there")
		}
		runtime.Gosched()
	}
	if err := b.Close(); err == nil {
		t.Error("Close does not say that the local level has failed")
	}
	// The folder is back: everything that was acknowledged in it is.
	_ = os.RemoveAll(dir)
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	again, err := buffer.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	put(t, again, define(t, again, "a"), 5000, 5001)
	if err := again.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, id := range ids(mem, "in.c-test.a") {
		if seen[id] {
			t.Errorf("row %s is there twice", id)
		}
		seen[id] = true
	}
	if !seen["0"] || !seen[fmt.Sprint(5000)] {
		t.Errorf("rows are missing: %d are there", len(seen))
	}
}

func TestCheckpointIntoAPathWithASlash(t *testing.T) {
	mem := buffertest.NewMemory()
	b, err := buffer.Open(filepath.Join(t.TempDir(), "local"), buffer.Options{Staging: mem, Target: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Checkpoint(t.Context(), t.TempDir()+"/copy/"); err != nil {
		t.Fatal(err)
	}
}
