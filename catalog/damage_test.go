package catalog_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/seedtest"
)

// TestDamagedStore damages every file of a store in several ways. The store opens with all that it had, or says what is
// to be done; it never opens with less, except for
// the end of the log of a store that was not closed.
func TestDamagedStore(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, closed := range []bool{true, false} {
		disk := vfs.NewCrashableMem()
		store, err := catalog.OpenStoreOn(disk, "catalog")
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close() // a second Close does nothing
		const records = 50
		for i := range records {
			if err := store.Commit(map[string][]byte{fmt.Sprint("key/", i): []byte(strings.Repeat("x", 100) + fmt.Sprint(i))}); err != nil {
				t.Fatal(err)
			}
		}
		if closed {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		damagedFiles := 0
		names, err := disk.List("catalog")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for way, damage := range damages {
				for range 15 {
					copied := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
					if !damage(t, copied, "catalog/"+name, rng) {
						continue
					}
					what := fmt.Sprintf("closed %v, file %s %s", closed, name, way)
					again, err := catalog.OpenStoreOn(copied, "catalog")
					n := 0
					if err == nil {
						err = again.Scan("key/", func(string, []byte) error { n++; return nil })
						if e := again.Close(); e != nil && err == nil {
							t.Errorf("%s: close: %v", what, e)
						}
					}
					var damaged *catalog.DamageError
					switch {
					case errors.As(err, &damaged):
						damagedFiles++
						if !strings.Contains(err.Error(), "move catalog away") {
							t.Errorf("%s: %v", what, err)
						}
					case err != nil:
						t.Errorf("%s: %v", what, err)
					case n != records && !closed && strings.HasSuffix(name, ".log") && (cutsLog(way) || n >= records-6):
						// This is also what a crash leaves of writes that were not acknowledged: the last bytes of a log, and what
						// is missing behind them, have no witness.
					case n != records:
						t.Errorf("%s: %d of %d records, without an error", what, n, records)
					}
				}
			}
		}
		if damagedFiles == 0 {
			t.Error("no damage was found")
		}
	}
}

// cutsLog tells whether a damage leaves nothing of a log behind it.
func cutsLog(way string) bool { return way == "is cut" || way == "is gone" }

// damages change a file; they return false when there is nothing to change.
var damages = map[string]func(t *testing.T, disk vfs.FS, path string, rng *rand.Rand) bool{
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
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
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
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return true
}
