package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// A replay that is cancelled through another node ends after the step that runs. The records it has moved are counted, each record is a row or still
// in the quarantine, and the next replay has the rest.
func TestCancelledReplayOfAQuarantine(t *testing.T) {
	for _, byIDs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cluster := newNodes(t, catalog.Options{})
			all := cluster.three()
			a, b, c := all[0], all[1], all[2]
			done(t, a.Catalog)(a.CreateSource(user, shop()))
			same(t, all...)
			if _, err := c.Handle("shop", "orders").CancelRejects(t.Context()); code(err) != catalog.TaskNotFound {
				t.Errorf("without a replay: %v", err)
			}
			const records = 250
			reject(t, b.eng, 0, records)
			done(t, a.Catalog)(a.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Columns: priced("n")}))
			same(t, all...)
			var selection catalog.RejectedSelection
			if byIDs {
				list, _ := listed(t, a.Catalog, 1000)
				for _, r := range list {
					selection.IDs = append(selection.IDs, r.ID)
				}
			}
			var mu sync.Mutex
			var cancelled catalog.Task
			steps := 0
			b.respond = func(request, response []byte) []byte {
				if bytes.Contains(request, []byte(`"op":"replayRejects"`)) {
					mu.Lock()
					defer mu.Unlock()
					if steps++; steps == 1 {
						var err error
						if cancelled, err = c.Handle("shop", "orders").CancelRejects(t.Context()); err != nil {
							t.Error(err)
						}
					}
				}
				return response
			}
			task, err := a.Handle("shop", "orders").ReplayRejects(selection)
			if err == nil {
				task, err = a.Wait(t.Context(), task.ID)
			}
			mu.Lock()
			if err != nil || task.ID != cancelled.ID || task.Status != catalog.Failed || !strings.Contains(task.Failure, "was cancelled") ||
				*task.Rejects != (catalog.RejectsResult{Replayed: 100}) || steps != 1 {
				t.Errorf("by ids: %t: %+v, %+v, %v, cancelled %q; %d steps", byIDs, task, task.Rejects, err, cancelled.ID, steps)
			}
			mu.Unlock()
			if list, _ := listed(t, a.Catalog, 1000); len(list) != records-100 {
				t.Errorf("%d records are left, want %v", len(list), records-100)
			}
			if again, err := c.Handle("shop", "orders").CancelRejects(t.Context()); err != nil || again.ID != task.ID || !again.Finished() {
				t.Errorf("cancelled again: %+v, %v", again, err)
			}
			task = done(t, a.Catalog)(a.Handle("shop", "orders").ReplayRejects(selection))
			if task.Rejects.Replayed != records-100 {
				t.Errorf("got %+v, want task.Rejects.Replayed == %v", task.Rejects, records-100)
			}
			must(t, b.eng.FlushAll(t.Context()))
			if got, want := orders(cluster.target), numbers(records); !slices.Equal(got, want) {
				t.Errorf("the table has %q, want %q", got, want)
			}
		})
	}
}

// A replay that is cancelled while the rows of a step are being written ends when they are written, and they are counted.
func TestReplayCancelledDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cat *catalog.Catalog
		var armed atomic.Bool
		disk := disktest.Wrap(disktest.New(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".log") && armed.Swap(false) {
				if _, err := cat.Handle("shop", "orders").CancelRejects(context.Background()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // whoever waits has seen it
			}
			return nil
		}))
		mem := buffertest.NewMemory()
		eng, err := forebay.Open("data", forebay.Options{Target: mem, Staging: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disk)})
		must(t, err)
		if cat, err = catalog.Open("unused", eng, catalog.Options{Store: newMemory()}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(cat.Close(), eng.Close()); err != nil {
				t.Error(err)
			}
		}()
		done(t, cat)(cat.CreateSource(user, shop()))
		const records = 250
		reject(t, eng, 0, records)
		done(t, cat)(cat.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Columns: priced("n")}))
		armed.Store(true)
		task, err := cat.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{})
		if err == nil {
			task, err = cat.Wait(t.Context(), task.ID)
		}
		list, _ := listed(t, cat, 1000)
		if err != nil || task.Status != catalog.Failed || task.Rejects.Replayed != 100 || len(list) != records-100 {
			t.Errorf("%+v, %+v, %v; %d records are left", task, task.Rejects, err, len(list))
		}
	})
}
