package buffer_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// The process was down longer than the retention, and the table was fixed meanwhile. The rows are imported. They were
// given up without an attempt once.
func TestRowsExpireOnlyAfterAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		b, err := buffer.Open("data", opts)
		must(t, err)
		mustEnsure(t, mem)
		mem.Alter("in.c-test.a", datatype.UntypedColumns("id", "other")...)
		put(t, b, define(t, b, "a"), 0, 3)
		if f := b.Stats().Sinks[0].Files[0]; f.UploadAt.IsZero() || f.UploadAt.Sub(f.OpenedAt) != b.Stats().Sinks[0].Upload.Interval || f.Permanent || !f.FirstFailed.IsZero() {
			t.Errorf("a file that takes rows is shown as %+v", f)
		}
		if err := b.Sink("a").Flush(t.Context()); err == nil {
			t.Fatal("imported into other columns")
		}
		if f := b.Stats().Sinks[0].Files[0]; !f.Permanent || time.Since(f.FirstFailed) > time.Second || !f.UploadAt.IsZero() || !f.ImportAt.IsZero() {
			t.Errorf("a file that needs help is shown as %+v", f)
		}
		must(t, b.Close())
		time.Sleep(8 * 24 * time.Hour)
		mem.Alter("in.c-test.a", columns...)
		b = open(t, opts)
		must(t, b.Sink("a").Flush(t.Context()))
		wantIDs(t, mem, "in.c-test.a", 0, 3)
	})
}

func mustEnsure(t *testing.T, mem *buffertest.Memory) {
	t.Helper()
	must(t, mem.Ensure(t.Context(), driver.Table{ID: "in.c-test.a", Columns: columns}))
}

// A repaired table is found without a request.
func TestMendedTableIsFoundByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(t, mem))
		mustEnsure(t, mem)
		mem.Alter("in.c-test.a", datatype.UntypedColumns("id", "other")...)
		put(t, b, define(t, b, "a"), 0, 3)
		time.Sleep(10 * time.Minute)
		mem.Alter("in.c-test.a", columns...)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		wantIDs(t, mem, "in.c-test.a", 0, 3)
	})
}

func TestExpiryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		opts.Retention = time.Hour
		var log strings.Builder
		opts.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		b := open(t, opts)
		mustEnsure(t, mem)
		mem.Alter("in.c-test.a", datatype.UntypedColumns("id", "other")...)
		put(t, b, define(t, b, "a"), 0, 3)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if text := log.String(); !strings.Contains(text, "expired") || !strings.Contains(text, "sink=a") || !strings.Contains(text, "rows=3") {
			t.Errorf("log: %q", text)
		}
	})
}

func TestOneFailingSinkDoesNotDelayAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		mem.Before = func(ctx context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpEnsure || c.Op == buffertest.OpImport && strings.Contains(c.ID, "f000000000001") {
				<-ctx.Done() // hangs
				return ctx.Err()
			}
			return nil
		}
		b := open(t, memoryOptions(t, mem))
		bad, good := define(t, b, "bad"), define(t, b, "good")
		put(t, b, bad, 0, 1)
		put(t, b, good, 0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, b.Sink("good").Flush(ctx))
		var held *buffer.HeldError
		if err := b.Sink("bad").Flush(ctx); !errors.As(err, &held) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("flush of the hanging sink: %v, want a HeldError that wraps the deadline", err)
		}
	})
}
