package platform

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Every operation of the disk fails in turn, and all behind it: the process lives, and what was acknowledged is there at
// the next opening on the disk as a cut of the power leaves it.
func TestStoreOperationsFail(t *testing.T) {
	for n := int64(1); ; n++ {
		disk := vfs.NewCrashableMem()
		var ops atomic.Int64
		failing := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && ops.Add(1) >= n {
				return errors.New("injected fault")
			}
			return nil
		}))
		var kept []string
		s, err := openStore("db", slog.New(slog.DiscardHandler), failing)
		if err == nil {
			for i := range 5 {
				k := fmt.Sprint(i)
				if s.update(k, func(tx *txn) error { return tx.put(key("test", k), k) }) == nil {
					kept = append(kept, k)
				}
			}
			_ = s.close() // it may fail again
		}
		s, err = openStore("db", slog.New(slog.DiscardHandler), disk.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatalf("operation %d: opening afterwards: %v", n, err)
		}
		for _, k := range kept {
			var got string
			if found, err := get(s, key("test", k), &got); err != nil || !found || got != k {
				t.Errorf("operation %d: what was acknowledged: %q, %v, %v", n, k, found, err)
			}
		}
		if err := s.close(); err != nil {
			t.Errorf("operation %d: %v", n, err)
		}
		if ops.Load() < n {
			if len(kept) != 5 {
				t.Errorf("without a fault %d of 5 changes were made", len(kept))
			}
			return
		}
	}
}

// When the disk cannot be written, the change fails, every later one is refused, and what was acknowledged before is
// there at the next opening.
func TestStoreOnFailingDisk(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileSyncData, errorfs.OpFileWrite} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			var broken atomic.Bool
			disk := vfs.NewMem()
			fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if broken.Load() && (op.Kind == kind || kind == errorfs.OpFileSyncData && op.Kind == errorfs.OpFileSync) {
					return errors.New("injected fault")
				}
				return nil
			}))
			s, err := openStore("db", slog.New(slog.DiscardHandler), fs)
			if err != nil {
				t.Fatal(err)
			}
			put := func(k string) error { return s.update(k, func(tx *txn) error { return tx.put(key("test", k), k) }) }
			if err := put("before"); err != nil {
				t.Fatal(err)
			}
			broken.Store(true)
			done := make(chan error, 1)
			go func() { done <- put("during") }()
			if err := <-done; err == nil {
				t.Error("a change was acknowledged that is not on disk")
			}
			broken.Store(false)
			if err := put("after"); err == nil || !strings.Contains(err.Error(), "the store has failed") {
				t.Errorf("change after the failure: %v", err)
			}
			_ = s.close() // it may fail again

			s, err = openStore("db", slog.New(slog.DiscardHandler), disk)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			var got string
			if found, err := get(s, key("test", "before"), &got); err != nil || !found || got != "before" {
				t.Errorf("what was acknowledged: %v, %v", found, err)
			}
			if found, _ := get(s, key("test", "after"), &got); found {
				t.Error("a refused change was made")
			}
		})
	}
}

func get(s *store, k string, v any) (found bool, err error) {
	err = s.view(func(tx *txn) (err error) {
		found, err = tx.get(k, v)
		return err
	})
	return found, err
}

// No id is given twice, also not by a store that was not closed, and to nobody at the same time.
func TestSequence(t *testing.T) {
	disk := vfs.NewCrashableMem()
	seen := make(map[int64]bool)
	var last int64
	for range 4 {
		s, err := openStore("db", slog.New(slog.DiscardHandler), disk)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 600 {
					id, err := s.ids.take()
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if seen[id] || id <= last-4*600 {
						t.Errorf("id %d was given twice or late", id)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for id := range seen {
			last = max(last, id)
		}
		after := disk.CrashClone(vfs.CrashCloneCfg{}) // the power goes
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		disk = after
	}
}

// A power cut at any moment takes none of the changes that were acknowledged.
func TestStorePowerCut(t *testing.T) {
	disk := vfs.NewCrashableMem()
	n := 0
	for range 5 {
		s, err := openStore("db", slog.New(slog.DiscardHandler), disk)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			var got int
			if found, err := get(s, key("test", number(int64(i))), &got); err != nil || !found || got != i {
				t.Fatalf("change %d of %d: %v, %v", i, n, found, err)
			}
		}
		for range 50 {
			if err := s.update("", func(tx *txn) error { return tx.put(key("test", number(int64(n))), n) }); err != nil {
				t.Fatal(err)
			}
			n++
		}
		after := disk.CrashClone(vfs.CrashCloneCfg{})
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		disk = after
	}
}
