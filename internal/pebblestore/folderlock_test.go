package pebblestore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/proctest"
)

// storeIn is a store of a folder that is not open yet.
func storeIn(disk vfs.FS, dir string) *pebblestore.Store {
	return pebblestore.NewStore(pebblestore.StoreConfig{
		Config: pebblestore.Config{Dir: dir, FS: disk, Log: slog.New(slog.DiscardHandler), MemTable: 1 << 20},
		Name:   "test", InstanceKey: "instance",
	})
}

// A folder has one store, whatever its path is spelled like, in this process and in others. After a refused opening the first store still has the
// folder. That also holds where the file system cannot lock folders, as NFS.
func TestOneStoreForEachSpellingOfAFolder(t *testing.T) {
	if place, ok := proctest.Child(); ok {
		var disk vfs.FS = vfs.Default
		if dir, ok := strings.CutPrefix(place, "unlocked:"); ok {
			disk, place = unlocked(), dir
		}
		s := storeIn(disk, place)
		err := s.Open()
		fmt.Println(err)
		if err == nil {
			s.Close()
		}
		t.SkipNow()
	}
	for name, disk := range map[string]vfs.FS{"": vfs.Default, "unlocked:": unlocked()} {
		if disk == nil {
			continue // no lock is by folder there
		}
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			t.Chdir(base)
			dir := filepath.Join(base, "data")
			linked := filepath.Join(base, "link")
			must(t, os.Mkdir(dir, 0o700))
			if err := os.Symlink(dir, linked); err != nil {
				if runtime.GOOS == "windows" {
					t.Skip("symbolic links need a privilege: ", err)
				}
				t.Fatal(err)
			}
			first := storeIn(disk, dir)
			must(t, first.Open())
			for _, spelling := range []string{dir, "data", "./data", "data/", "../" + filepath.Base(base) + "/data", linked, "link"} {
				second := storeIn(disk, spelling)
				err := second.Open()
				if _, inUse := errors.AsType[*pebblestore.InUseError](err); !inUse {
					t.Errorf("%q while %q is open: got error %v, want an InUseError", spelling, dir, err)
				}
				if err == nil {
					second.Close()
				}
			}
			if !testing.Short() {
				for _, spelling := range []string{dir, linked} {
					if said := proctest.Start(t, "TestOneStoreForEachSpellingOfAFolder", name+spelling).Line(); !strings.Contains(said, "resource temporarily unavailable") {
						t.Errorf("a second process opens %q while %q is open: got error %s, want that it is in use", spelling, dir, said)
					}
				}
			}
			must(t, first.Close())
			again := storeIn(disk, linked)
			if err := again.Open(); err != nil {
				t.Fatalf("after the first store was closed: %v", err)
			}
			must(t, again.Close())
		})
	}
}
