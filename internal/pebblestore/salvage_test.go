package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

// salvaged is a store that salvages itself.
func salvaged(disk vfs.FS, log *bytes.Buffer) *pebblestore.Store {
	c := pebblestore.StoreConfig{Name: "store", InstanceKey: "instance", Salvage: true, Config: config(disk)}
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	return pebblestore.NewStore(c)
}

// fillForSalvage writes keys that were changed, removed, and removed as a range, partly to tables and partly to the log.
func fillForSalvage(t *testing.T, disk *disktest.Disk) {
	t.Helper()
	s := salvaged(disk, new(bytes.Buffer))
	must(t, s.Open())
	for _, part := range []string{"table", "log"} {
		if err := s.Update(func(b *pebble.Batch) (err error) {
			for i := range 20 {
				key := fmt.Sprint(part, "/", i)
				err = errors.Join(err, b.Set([]byte(key), []byte("before"), nil), b.Set([]byte(key), []byte(key), nil),
					b.Set([]byte("gone/"+key), []byte(key), nil), b.Set([]byte("range/"+key), []byte(key), nil))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(func(b *pebble.Batch) (err error) {
			for i := range 20 {
				err = errors.Join(err, b.Delete(fmt.Append(nil, "gone/", part, "/", i), nil))
			}
			return errors.Join(err, b.DeleteRange([]byte("range/"), []byte("range0"), nil))
		}); err != nil {
			t.Fatal(err)
		}
		if part == "table" {
			must(t, s.Opening().DB.Flush())
		}
	}
	must(t, s.Close())
}

// checkSalvaged reads what fillForSalvage has written.
func checkSalvaged(t *testing.T, s *pebblestore.Store) {
	t.Helper()
	if err := s.View(func(r pebble.Reader) error {
		it, err := r.NewIter(nil)
		if err != nil {
			return err
		}
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			if string(it.Key()) == "instance" {
				continue
			}
			if n++; !bytes.Equal(it.Key(), it.Value()) {
				t.Errorf("key %s has %q", it.Key(), it.Value())
			}
		}
		if n != 40 {
			t.Errorf("got %d keys, want 40", n)
		}
		return it.Close()
	}); err != nil {
		t.Error(err)
	}
}

// A store whose list of tables is damaged loses nothing, wherever the salvage is cut short, with the power.
func TestSalvageOfAStoreIsCutShort(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		filled := disk(t)
		fillForSalvage(t, filled)
		names, err := filled.List("data")
		must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "MANIFEST-") {
				must(t, filled.Change("data/"+name, func([]byte) []byte { return nil }))
			}
		}
		for n, done := 0, false; !done && !t.Failed(); n += casetest.Of(1, 5, 12) {
			cut := filled.Killed()
			var ops atomic.Int64
			log := new(bytes.Buffer)
			s := salvaged(disktest.Wrap(cut, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && ops.Add(1) > int64(n) {
					return syscall.EIO // and everything after it
				}
				return nil
			})), log)
			if err := s.Open(); err == nil {
				done = true
				_ = s.Close()
			}
			s = salvaged(cut.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(n), 7))}), log)
			if err := s.Open(); err != nil {
				t.Fatalf("cut short at operation %d: open: %v", n, err)
			}
			checkSalvaged(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if text := log.String(); !strings.Contains(text, "store damaged") || strings.Contains(text, "records lost or outdated") {
				t.Errorf("cut short at operation %d: the log has %s", n, text)
			}
		}
	})
}

// A store notes what could not be read in the folder that keeps the damaged files.
func TestSalvageOfAStoreNotesLosses(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		d, log := disk(t), new(bytes.Buffer)
		fillForSalvage(t, d)
		for _, table := range tables(t, d) {
			must(t, d.Change("data/"+table, func(data []byte) []byte { return data[:len(data)/2] }))
		}
		s := salvaged(d, log)
		must(t, s.Open())
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		names, err := d.List("data")
		must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "damaged-") {
				text, err := d.Read("data/" + name + "/forebay-lost.txt")
				if err != nil || !strings.Contains(string(text), ".sst: ") || !strings.Contains(log.String(), "records lost or outdated") {
					t.Errorf("the note is %q, %v; the log has %s", text, err, log)
				}
				return
			}
		}
		t.Errorf("no folder keeps the damaged files: %v", names)
	})
}

// If the disk refuses the note of Close, the store is closed all the same, and opens again as after a crash.
func TestCloseWithoutItsNote(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		d, log := disk(t), new(bytes.Buffer)
		s := salvaged(disktest.Wrap(d, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "forebay-closed") {
				return syscall.ENOSPC
			}
			return nil
		})), log)
		if err := errors.Join(s.Open(), s.Close()); err != nil || !strings.Contains(log.String(), "clean close not recorded") {
			t.Errorf("%v, the log has %s", err, log)
		}
		log.Reset()
		s = salvaged(d, log)
		if err := errors.Join(s.Open(), s.Close()); err != nil || strings.Contains(log.String(), "damaged") {
			t.Errorf("open again: %v, the log has %s", err, log)
		}
	})
}
