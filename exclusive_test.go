package forebay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// exclusive is a target that only one process may use.
type exclusive struct {
	*buffertest.Memory
	leases  *buffertest.Leases
	without atomic.Int64 // calls without the lease
}

func (e *exclusive) Alone(string) string { return "all" }

func (e *exclusive) check() {
	if e.leases.Holder("all") != "a" {
		e.without.Add(1)
	}
}

func (e *exclusive) Ensure(ctx context.Context, t driver.Table) error {
	e.check()
	return e.Memory.Ensure(ctx, t)
}

func (e *exclusive) Extend(ctx context.Context, t driver.Table) error {
	e.check()
	return e.Memory.Extend(ctx, t)
}

func (e *exclusive) Uncreate(ctx context.Context, table, creation string) error {
	e.check()
	return e.Memory.Uncreate(ctx, table, creation)
}

// A definition makes its tables under a lease. While another process holds it for long, the definition continues without them.
func TestDefineUnderALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &exclusive{Memory: buffertest.NewMemory(), leases: buffertest.NewLeases()}
		e, err := forebay.Open("data", forebay.Options{
			Staging: target.Memory, Target: target, Leases: target.leases.Process("a"), Buffer: localdisk.On(buffer.Tuning{}, vfs.NewMem()),
		})
		must(t, err)
		defer e.Close()
		source := func(id string, extend bool) forebay.Source {
			return forebay.Source{ID: id, Sinks: []forebay.Sink{{
				ID: "k", Table: forebay.Table{ID: id, Extend: extend, Columns: mapping.Columns{mapping.Path("id", "id")}},
			}}}
		}
		calls := func() (n int) {
			for _, c := range target.Calls() {
				switch c.Op {
				case buffertest.OpEnsure, buffertest.OpExtend, buffertest.OpUncreate:
					n++
				}
			}
			return n
		}
		mustDefine(t, e, source("x", false))
		mustDefine(t, e, source("y", true))
		if err := e.Uncreate(t.Context(), "mark", forebay.Table{ID: "z"}); err != nil {
			t.Error(err)
		}
		if n := calls(); n != 3 {
			t.Errorf("got %d calls, want 3", n)
		}
		_, release, err := target.leases.Process("b").Take(t.Context(), "all")
		must(t, err)
		defer release()
		begun := time.Now()
		mustDefine(t, e, source("w", false))
		if took := time.Since(begun); took < 5*time.Second || took > 20*time.Second {
			t.Errorf("the definition waited %s for the lease, want about 10s", took)
		}
		if n, without := calls(), target.without.Load(); n != 3 || without != 0 {
			t.Errorf("got %d calls in the end, %d of all without the lease, want 3 and none", n, without)
		}
	})
}
