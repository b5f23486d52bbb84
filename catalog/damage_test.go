package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/seedtest"
)

// TestDamagedStore damages every file of a store in several ways. The store opens. It has all records, as they were, or reports a loss.
// The end of the log of a store that was not closed is an exception because it looks like a write that the crash has torn.
func TestDamagedStore(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		rng := seedtest.Rand(t)
		for _, closed := range []bool{true, false} {
			w := newDamagedStore(t, disk(t), closed)
			names, err := w.disk.List("catalog")
			must(t, err)
			places := casetest.Of(15, 4, 2)
			if w.disk.IsReal() {
				places = casetest.Of(15, 1, 1)
			}
			for _, name := range names {
				for way, damage := range damages {
					for range places {
						w.play(t, rng, name, way, damage)
					}
				}
			}
			if w.lossy == 0 || w.whole == 0 {
				seedtest.Missed(t, "closed %v: %d salvages with a loss, %d without one; want some of both", closed, w.lossy, w.whole)
			}
		}
	})
}

// damagedStore is a store that is copied before each damage.
type damagedStore struct {
	disk         *disktest.Disk
	closed       bool
	lossy, whole int // salvages with and without a loss
}

const damagedRecords = 50

func damagedRecord(i int) string { return strings.Repeat("x", 100) + fmt.Sprint(i) }

func newDamagedStore(t *testing.T, disk *disktest.Disk, closed bool) *damagedStore {
	t.Helper()
	store, err := catalog.OpenStoreOn(disk, "catalog")
	must(t, err)
	t.Cleanup(func() { _ = store.Close() }) // a second Close does nothing
	for i := range damagedRecords {
		for _, record := range []string{"before", damagedRecord(i)} {
			must(t, store.Commit(map[string][]byte{fmt.Sprint("key/", i): []byte(record), fmt.Sprint("gone/", i): []byte(record)}))
		}
		must(t, store.Commit(map[string][]byte{fmt.Sprint("gone/", i): nil}))
	}
	if closed {
		must(t, store.Close())
	}
	return &damagedStore{disk: disk, closed: closed}
}

// play damages one file of a copy and opens it.
func (w *damagedStore) play(t *testing.T, rng *rand.Rand, name, way string, damage damageOf) {
	t.Helper()
	copied := w.disk.Killed()
	if !damage(t, copied, "catalog/"+name, rng) {
		return
	}
	what := fmt.Sprintf("closed %v, file %s %s", w.closed, name, way)
	var log bytes.Buffer
	store, err := catalog.OpenStoreLogging(copied, "catalog", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Errorf("%s: open: got %v, want no error", what, err)
		return
	}
	changed := 0
	for i := range damagedRecords {
		record, err := store.Get(fmt.Sprint("key/", i))
		if err == nil && string(record) != damagedRecord(i) {
			changed++
		}
		gone, e := store.Get(fmt.Sprint("gone/", i))
		if gone != nil {
			changed++
		}
		if err := errors.Join(err, e); err != nil {
			t.Errorf("%s: read record %d: got %v, want no error", what, i, err)
		}
	}
	if err := errors.Join(store.Commit(map[string][]byte{"later": []byte("x")}), store.Close()); err != nil {
		t.Errorf("%s: got %v, want no error", what, err)
	}
	salvaged, lost := strings.Contains(log.String(), `msg="store salvaged" store="store of the catalog"`), strings.Contains(log.String(), "records lost or outdated")
	switch {
	case salvaged && lost:
		w.lossy++
	case salvaged:
		w.whole++
	}
	// Records missing after the last bytes of a log, or at their place, have no witness.
	torn := !w.closed && strings.HasSuffix(name, ".log") && (cutsLog(way) || changed <= 12)
	if changed > 0 && !lost && !torn {
		t.Errorf("%s: %d records are not what they were, without a report; the log has %s", what, changed, &log)
	}
	again, err := catalog.OpenStoreOn(copied, "catalog")
	if err != nil {
		t.Errorf("%s: open again: got %v, want no error", what, err)
		return
	}
	if later, err := again.Get("later"); string(later) != "x" || err != nil {
		t.Errorf("%s: what was stored later is %q, %v", what, later, err)
	}
	if err := again.Close(); err != nil {
		t.Errorf("%s: close: got %v, want no error", what, err)
	}
}

// cutsLog reports whether a damage leaves nothing of a log after it.
func cutsLog(way string) bool { return way == "is cut" || way == "is gone" }

type damageOf = func(t *testing.T, disk vfs.FS, path string, rng *rand.Rand) bool

// damages change a file. They return false when there is nothing to change.
var damages = map[string]damageOf{
	"has a flipped byte": func(t *testing.T, disk vfs.FS, path string, rng *rand.Rand) bool {
		return rewrite(t, disk, path, func(data []byte) []byte {
			data[rng.IntN(len(data))] ^= byte(1 + rng.IntN(255))
			return data
		})
	},
	"is cut": func(t *testing.T, disk vfs.FS, path string, rng *rand.Rand) bool {
		return rewrite(t, disk, path, func(data []byte) []byte { return data[:rng.IntN(len(data))] })
	},
	"has zeros": func(t *testing.T, disk vfs.FS, path string, rng *rand.Rand) bool {
		return rewrite(t, disk, path, func(data []byte) []byte {
			at := rng.IntN(len(data))
			clear(data[at:min(len(data), at+512)])
			return data
		})
	},
	"is gone": func(t *testing.T, disk vfs.FS, path string, _ *rand.Rand) bool { return disk.Remove(path) == nil },
}

func rewrite(t *testing.T, disk vfs.FS, path string, change func([]byte) []byte) bool {
	t.Helper()
	f, err := disk.Open(path)
	must(t, err)
	data, err := io.ReadAll(f)
	must(t, err)
	must(t, f.Close())
	if len(data) == 0 {
		return false
	}
	data = change(data)
	if f, err = disk.Create(path, vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	must(t, errors.Join(f.Sync(), f.Close()))
	return true
}
