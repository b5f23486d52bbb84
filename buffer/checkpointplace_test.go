package buffer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
)

// TestCheckpointPlace: a checkpoint is not written into the folders of the buffer and its drivers, however the path is spelled.
func TestCheckpointPlace(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	local, staging, tables := filepath.Join(root, "local"), filepath.Join(root, "staging"), filepath.Join(root, "tables")
	b := openAt(t, local, buffer.Options{Staging: dir.Staging(staging), Target: dir.Tables(tables)})
	for _, folder := range []string{"staging", "tables", "local/sub", "Other"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "local", "linked": "staging", "deep": "local/sub"} {
		if err := os.Symlink(filepath.Join(root, to), link); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []string{
		filepath.Join(local, "copy"), "local/copy", "./Other/../local/a/b", filepath.Join(staging, "copy"), "staging/a/b", "tables/copy",
		"link/copy", "linked/copy", "linked/a/b", "deep/copy",
	} {
		if err := b.Checkpoint(t.Context(), to); err == nil || !strings.Contains(err.Error(), "choose a folder outside of it") {
			t.Errorf("Checkpoint(%q) = %v, want an error that refuses the folder", to, err)
		}
		if _, err := os.Lstat(to); err == nil {
			t.Errorf("Checkpoint(%q) has left something", to)
		}
	}
	for _, to := range []string{"localcopy", "Other/local", "checkpoints/1"} {
		if err := b.Checkpoint(t.Context(), to); err != nil {
			t.Errorf("Checkpoint(%q) = %v, want nil: the folder is outside", to, err)
		}
	}
}

// TestCheckpointNextToADatabase: the data directory and the file of a database may be in one folder. The database does not own this folder.
func TestCheckpointNextToADatabase(t *testing.T) {
	root := t.TempDir()
	b := openAt(t, filepath.Join(root, "data", "local"), buffer.Options{Staging: dir.Staging(filepath.Join(root, "data", "staging")), Target: sharing{buffertest.NewMemory(), root}})
	if err := b.Checkpoint(t.Context(), filepath.Join(root, "data", "checkpoints", "1")); err != nil {
		t.Error(err)
	}
	if err := b.Checkpoint(t.Context(), filepath.Join(root, "data", "staging", "1")); err == nil {
		t.Error("a checkpoint was made in the folder of the staging")
	}
}

// sharing is a target with a file in a folder that it does not own.
type sharing struct {
	driver.Target
	folder string
}

func (b sharing) Needs(int64, int64) (string, int64) { return b.folder, 0 }

// An empty path is a mistake. It would stand for the working directory of the process.
func TestEmptyPathIsNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	mem := &buffertest.Memory{}
	b := openAt(t, t.TempDir(), buffer.Options{Staging: mem, Target: mem})
	_, opened := buffer.Open("", buffer.Options{Staging: mem, Target: mem})
	for name, err := range map[string]error{
		"Open": opened, "Checkpoint": b.Checkpoint(t.Context(), ""), "Restore": buffer.Restore("", "", nil, buffer.Tuning{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "no name") {
			t.Errorf("%s of an empty path: %v, want an error that says it has no name", name, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the working directory contains %v (%v), want nothing", left, err)
	}
}
