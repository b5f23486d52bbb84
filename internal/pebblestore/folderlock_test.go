package pebblestore_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/pebblestore"
)

// A folder has one store in a process, whatever its path is spelled like. After a refused opening the first store still has the folder.
func TestOneStoreForEachSpellingOfAFolder(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	dir := filepath.Join(base, "data")
	linked := filepath.Join(base, "link")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, linked); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("symbolic links need a privilege: ", err)
		}
		t.Fatal(err)
	}
	open := func(dir string) (*pebblestore.Store, error) {
		s := pebblestore.NewStore(pebblestore.StoreConfig{
			Config: pebblestore.Config{Dir: dir, FS: vfs.Default, Log: slog.New(slog.DiscardHandler), MemTable: 1 << 20},
			Name:   "test", InstanceKey: "instance",
		})
		return s, s.Open()
	}
	first, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, spelling := range []string{dir, "data", "./data", "data/", "../" + filepath.Base(base) + "/data", linked, "link"} {
		second, err := open(spelling)
		if _, inUse := errors.AsType[*pebblestore.InUseError](err); !inUse {
			t.Errorf("%q while %q is open: got error %v, want an InUseError", spelling, dir, err)
		}
		if err == nil {
			second.Close()
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := open(linked)
	if err != nil {
		t.Fatalf("after the first store was closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
