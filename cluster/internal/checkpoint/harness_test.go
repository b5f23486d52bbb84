package checkpoint_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	instance = "node-a-kxqzwvbn"
	snapshot = "data/snapshot"
)

var errInjected = errors.New("injected")

// files are the contents of a folder by name.
type files map[string]string

// newStore returns a store with its own store of owners.
func newStore(staging driver.Staging, disk vfs.FS, o checkpoint.Options) *checkpoint.Store {
	return checkpoint.New(staging, newOwners(), localdisk.On(o, disk))
}

func newOwners() *changelogtest.Owners { return changelogtest.NewOwners(1, changelogtest.Faults{}) }

// write puts files in place of a folder.
func write(t testing.TB, disk vfs.FS, dir string, all files) {
	t.Helper()
	if err := disk.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		name = path.Join(dir, name)
		if err := disk.MkdirAll(path.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = io.WriteString(f, text)
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// makeDurable makes a folder that a crash does not take away.
func makeDurable(t testing.TB, disk vfs.FS, dir string) {
	t.Helper()
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := pebblestore.SyncDir(disk, "/"); err != nil {
		t.Fatal(err)
	}
}

// read returns the files below a folder.
func read(t testing.TB, disk vfs.FS, dir string) files {
	t.Helper()
	all := files{}
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := disk.Stat(path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			for inner, text := range read(t, disk, path.Join(dir, name)) {
				all[path.Join(name, inner)] = text
			}
			continue
		}
		f, err := disk.Open(path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// expect demands that a ref stands for these files.
func expect(t testing.TB, ctx context.Context, staging driver.Staging, ref string, want files) {
	t.Helper()
	disk := vfs.NewMem()
	s := newStore(staging, disk, checkpoint.Options{})
	m, err := s.Load(ctx, instance, ref)
	if err == nil {
		err = s.Fetch(ctx, m, "fetched")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, disk, "fetched"); !maps.Equal(got, want) {
		t.Fatalf("checkpoint %s has %v, want %v", ref, got, want)
	}
}

// expectNone demands that a failed Fetch has left nothing.
func expectNone(t testing.TB, disk vfs.FS, dir string) {
	t.Helper()
	for _, name := range []string{dir, dir + ".partial"} {
		if _, err := disk.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

// objects returns the names of all objects in staging.
func objects(staging *buffertest.Memory) map[string]bool {
	names := map[string]bool{}
	for _, o := range staging.Objects() {
		names[o.ID] = true
	}
	return names
}

// objectsOf returns the names of the objects of a checkpoint.
func objectsOf(m checkpoint.Manifest, ref string) map[string]bool {
	names := map[string]bool{ref: true}
	for _, f := range m.Files {
		if f.Object != "" {
			names[f.Object] = true
		}
	}
	return names
}

func save(t testing.TB, s *checkpoint.Store, number uint64, before *checkpoint.Manifest) (checkpoint.Manifest, string) {
	t.Helper()
	m, ref, err := s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1, Log: "log", Number: number}, before)
	if err != nil {
		t.Fatal(err)
	}
	return m, ref
}
