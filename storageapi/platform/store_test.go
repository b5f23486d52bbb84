package platform

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/internal/synctest"
)

// Every operation of the disk fails in turn, and all operations after it. The process lives, and acknowledged data is there at
// the next opening on the disk as a power cut leaves it.
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
				if s.update(k, func(tx *txn) error { tx.put(key("test", k), k); return nil }) == nil {
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

// While the disk cannot be written every change is refused with an error that says when to try again, and nothing can be
// read that is not stored. When the disk can be written again the store resumes by itself, and all data is there at the
// next opening.
func TestStoreOnFailingDisk(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileSyncData, errorfs.OpFileWrite} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				disk := vfs.NewMem()
				fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && (op.Kind == kind || kind == errorfs.OpFileSyncData && op.Kind == errorfs.OpFileSync) {
						return syscall.ENOSPC
					}
					return nil
				}))
				s, err := openStore("db", slog.New(slog.DiscardHandler), fs)
				if err != nil {
					t.Fatal(err)
				}
				put := func(k string) error {
					return s.update(k, func(tx *txn) error { tx.put(key("test", k), k); return nil })
				}
				if err := put("before"); err != nil {
					t.Fatal(err)
				}
				broken.Store(true)
				var got string
				for _, k := range []string{"first", "second", "third"} {
					err := put(k)
					if storeFailed(err) == nil {
						t.Errorf("a change that is not on disk: %v", err)
					}
					if found, err := get(s, key("test", k), &got); found && err == nil {
						t.Errorf("%s can be read and is not stored", k)
					}
				}
				broken.Store(false)
				if err := s.wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := put("after"); err != nil {
					t.Errorf("change after the failure: %v", err)
				}
				shown := map[string]bool{}
				for _, k := range []string{"before", "first", "second", "third", "after"} {
					if shown[k], err = get(s, key("test", k), &got); err != nil {
						t.Error(err)
					}
				}
				if !shown["before"] || !shown["after"] {
					t.Errorf("what was acknowledged is missing: %v", shown)
				}
				if err := s.close(); err != nil {
					t.Error(err)
				}

				s, err = openStore("db", slog.New(slog.DiscardHandler), disk)
				if err != nil {
					t.Fatal(err)
				}
				for k, there := range shown {
					if found, err := get(s, key("test", k), &got); err != nil || found != there {
						t.Errorf("%s: %v before the restart, got %v after it, %v, want the same, no error", k, there, found, err)
					}
				}
				if err := s.close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func get(s *store, k string, v any) (found bool, err error) {
	err = s.view(func(tx *txn) error {
		found = tx.get(k, v)
		return nil
	})
	return found, err
}

// No id is given twice, not even by a store that was not closed, or to concurrent callers.
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
			if err := s.update("", func(tx *txn) error { tx.put(key("test", number(int64(n))), n); return nil }); err != nil {
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

// A transaction that has failed once reads nothing, writes nothing and returns its first failure, whatever its function says.
func TestTransactionKeepsItsFailure(t *testing.T) {
	s, err := openStore("db", slog.New(slog.DiscardHandler), vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.update("", func(tx *txn) error { tx.put(key("test", "a"), "text"); tx.put(key("test", "b"), 2); return nil }); err != nil {
		t.Fatal(err)
	}
	err = s.update("", func(tx *txn) error {
		if n := 0; tx.get(key("test", "a"), &n) || tx.get(key("test", "b"), &n) || tx.has(key("test", "b")) {
			t.Error("a failed transaction has read a record")
		}
		for n := range each[int](tx, key("test", ""), false) {
			t.Errorf("a failed transaction has read %d", n)
		}
		tx.put(key("test", "c"), 3)
		return errors.New("another error")
	})
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("the transaction returned %v, want its first failure", err)
	}
	if found, err := get(s, key("test", "c"), new(int)); found || err != nil {
		t.Errorf("a failed transaction was committed: %v, %v", found, err)
	}
}
