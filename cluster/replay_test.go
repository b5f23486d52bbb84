package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

// A node is lost in the middle of a replay. The node that takes over continues it. No other node begins it again, before the loss, during the
// adoption and after that. The table has each record of the archive once.
func TestReplayContinuesAtTheAdopter(t *testing.T) {
	t.Parallel()
	const records = 2000
	c := startNodes(t, false, func(c *nodes) { c.archive = dir.Archive(filepath.Join(c.dir, "archive"), dir.ArchiveOptions{}) })
	c.define()
	mem := buffertest.NewMemory()
	earlier, err := forebay.Open("data", forebay.Options{
		Staging: mem, Target: mem, Archive: c.archive, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disktest.New(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	var recs []*mapping.Record
	for n := range records {
		want = append(want, fmt.Sprintf("%04d", n))
		recs = append(recs, mapping.JSON([]byte(`{"id":"`+want[n]+`"}`)))
	}
	err = earlier.Define(t.Context(), forebay.Source{ID: "earlier", Archive: &forebay.ArchiveSettings{}, Sinks: []forebay.Sink{{
		ID: "events", Table: forebay.Table{ID: tableID, Columns: columns},
	}}})
	if err == nil {
		_, err = earlier.IngestBatch(t.Context(), "earlier", recs)
	}
	if err := errors.Join(err, earlier.FlushAll(t.Context()), earlier.Close()); err != nil {
		t.Fatal(err)
	}
	replay := func(ctx context.Context, i int, progress func(forebay.ReplayProgress)) (forebay.ReplayProgress, error) {
		return c.list[i].Engine().Sink("web", "events").Replay(ctx, forebay.ReplayOptions{Run: "run", Archived: "earlier", Progress: progress})
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := replay(ctx, 0, func(p forebay.ReplayProgress) {
		if p.Stored > 0 {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) || p.Stored == 0 || p.Stored >= records {
		t.Fatalf("got %+v, %v, want a replay that has stored some records", p, err)
	}
	if _, err := replay(t.Context(), 1, nil); !errors.Is(err, forebay.ErrReplayElsewhere) || !strings.Contains(err.Error(), "at node a") {
		t.Errorf("at another node: got %v, want ErrReplayElsewhere with the name of the first node", err)
	}
	c.lose(0)
	c.awaitSource(c.list[0])
	at := -1
	if err := clustertest.Eventually(func() error {
		var errs []error
		for i := range c.list {
			if err := c.reopen(i); err != nil {
				return err
			}
			p, err := replay(t.Context(), i, nil)
			if err == nil && p.Done() {
				at = i
				return nil
			}
			if !errors.Is(err, forebay.ErrReplayElsewhere) {
				t.Errorf("at node %d: got %v, want ErrReplayElsewhere", i, err)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	for i := range c.list {
		_, err := replay(t.Context(), i, nil)
		if i == at && err != nil || i != at && !errors.Is(err, forebay.ErrReplayElsewhere) {
			t.Errorf("at node %d, after node %d has ended it: got %v, want no error there and ErrReplayElsewhere elsewhere", i, at, err)
		}
	}
	if got := c.flushed(c.list[:]...); !slices.Equal(got, want) {
		t.Errorf("the table has %d rows, want %d, each once", len(got), len(want))
	}
}
