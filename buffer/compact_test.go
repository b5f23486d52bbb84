package buffer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// compacting is a Memory that is a Compactor.
type compacting struct {
	*buffertest.Memory
	calls chan string
	fail  error
}

func (c *compacting) Compact(_ context.Context, t buffer.Table) error {
	c.calls <- t.ID
	return c.fail
}

// Tables are compacted after an import, and every hour without one, whatever the call returns.
func TestCompactor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		target := &compacting{mem, make(chan string, 100), errors.New("the disk is full")}
		opts := memoryOptions(mem)
		opts.Target = target
		b := open(t, opts)
		a := define(t, b, "a")
		define(t, b, "b")
		calls := func() (ids []string) {
			synctest.Wait()
			for len(target.calls) > 0 {
				ids = append(ids, <-target.calls)
			}
			slices.Sort(ids)
			return ids
		}
		if got := calls(); got != nil {
			t.Errorf("before any import: %q", got)
		}
		put(t, b, a, 0, 3)
		if err := b.Flush(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got := calls(); !slices.Equal(got, []string{"in.c-test.a"}) {
			t.Errorf("after an import: %q", got)
		}
		for range 2 {
			time.Sleep(time.Hour)
			if got := calls(); !slices.Equal(got, []string{"in.c-test.a", "in.c-test.b"}) {
				t.Errorf("an hour later: %q", got)
			}
		}
	})
}

// partly is a Memory of which some rows of each file were taken away.
type partly struct {
	*buffertest.Memory
	taken bool
}

func (p partly) CountFile(ctx context.Context, t buffer.Table, id string) (int64, error) {
	n, err := p.Memory.CountFile(ctx, t, id)
	return n - 1, err
}

func (p partly) TakenAway(context.Context, buffer.Table, string) (bool, error) { return p.taken, nil }

func TestRowsThatWereTakenAwayInPart(t *testing.T) {
	for _, taken := range []bool{false, true} {
		mem := buffertest.NewMemory()
		opts := memoryOptions(mem)
		opts.Target = partly{mem, taken}
		b := open(t, opts)
		put(t, b, define(t, b, "a"), 0, 3)
		if err := b.Flush(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		report, err := b.Verify(t.Context())
		if err != nil || report.OK() != taken || (report.Sinks[0].TakenAway == 1) != taken {
			t.Errorf("taken away %t: %+v, %v", taken, report, err)
		}
	}
}
