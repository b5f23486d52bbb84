package pebblestore_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// modeFS is the real file system. It reports each file that other users could open in the moment of its creation.
type modeFS struct {
	vfs.FS
	t *testing.T
}

func (m *modeFS) Unwrap() vfs.FS { return m.FS }

func (m *modeFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		m.t.Errorf("%s is created with mode %v (%v), want 0600", name, info.Mode(), err)
	}
	return f, nil
}

func (m *modeFS) Lock(name string) (c io.Closer, err error) {
	c, err = m.FS.Lock(name)
	if info, statErr := os.Stat(name); err == nil && (statErr != nil || info.Mode().Perm() != 0o600) {
		m.t.Errorf("%s is created with mode %v (%v), want 0600", name, info.Mode(), statErr)
	}
	return c, err
}

// Other users cannot open a file of a store in the moment between its creation and a change of its mode either, because a process that has a
// file open can read later writes.
func TestFilesArePrivateFromTheStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions")
	}
	dir := filepath.Join(t.TempDir(), "data")
	disk := &modeFS{localdisk.Real(), t}
	c := config(disk)
	c.Dir = dir
	must(t, os.Mkdir(dir, 0o700))
	lock, err := pebblestore.LockDir(disk, dir)
	must(t, err)
	defer lock.Close()
	o, err := pebblestore.Open(c)
	must(t, err)
	for i := range 100 {
		must(t, o.DB.Set(fmt.Appendf(nil, "key %03d", i), bytes.Repeat([]byte("v"), 1000), pebble.Sync))
	}
	must(t, o.DB.Flush())
	must(t, o.Close())
	must(t, pebblestore.WriteNote(disk, dir, "note", "text"))
	names, err := os.ReadDir(dir)
	must(t, err)
	var all []string
	for _, name := range names {
		all = append(all, name.Name())
	}
	for _, want := range []string{".sst", "LOCK", "MANIFEST", "note"} {
		if !strings.Contains(strings.Join(all, " "), want) {
			t.Errorf("the folder has %v, want a file %s among them", all, want)
		}
	}
}
