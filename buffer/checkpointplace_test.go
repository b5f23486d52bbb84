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

// TestCheckpointPlace checks that a checkpoint is not written into the folders of the buffer and its drivers, however the path is spelled.
func TestCheckpointPlace(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	local, staging, tables := filepath.Join(root, "local"), filepath.Join(root, "staging"), filepath.Join(root, "tables")
	b := openAt(t, local, buffer.Options{Staging: dir.Staging(staging), Target: dir.Tables(tables)})
	for _, folder := range []string{"staging", "tables", "local/sub", "Other"} {
		must(t, os.MkdirAll(folder, 0o700))
	}
	for link, to := range map[string]string{"link": "local", "linked": "staging", "deep": "local/sub"} {
		must(t, os.Symlink(filepath.Join(root, to), link))
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

// TestCheckpointNextToADatabase checks that the data directory, a checkpoint and the file of a database may be in one folder.
func TestCheckpointNextToADatabase(t *testing.T) {
	root := t.TempDir()
	b := openAt(t, filepath.Join(root, "data", "local"), buffer.Options{Staging: dir.Staging(filepath.Join(root, "data", "staging")), Target: inFile{buffertest.NewMemory(), filepath.Join(root, "events.db")}})
	if err := b.Checkpoint(t.Context(), filepath.Join(root, "data", "checkpoints", "1")); err != nil {
		t.Error(err)
	}
	if err := b.Checkpoint(t.Context(), filepath.Join(root, "data", "staging", "1")); err == nil {
		t.Error("a checkpoint was made in the folder of the staging")
	}
}

// inFile is a target that writes to a single file.
type inFile struct {
	driver.Target
	file string
}

func (b inFile) Needs(int64, int64) (string, int64) { return b.file, 0 }

// A folder of tables that holds the data directory is refused too, even for a target with a name, because a table may get the name of the copy.
// So is the folder of an archive.
func TestNoCheckpointAmongTables(t *testing.T) {
	root := t.TempDir()
	named := filepath.Join(root, "named")
	archive := filepath.Join(t.TempDir(), "archive")
	b := openAt(t, filepath.Join(named, "local"), buffer.Options{
		Staging: buffertest.NewMemory(), Target: dir.Tables(root), Targets: map[string]driver.Target{"lake": dir.Tables(named)},
		TargetOf: func(id string) driver.Target {
			if id == "b" {
				return dir.Archive(archive, dir.ArchiveOptions{})
			}
			return nil
		},
	})
	define(t, b, "b")
	for _, to := range []string{filepath.Join(root, "in.c-test.a"), filepath.Join(named, "in.c-test.a"), filepath.Join(archive, "copy")} {
		if err := b.Checkpoint(t.Context(), to); err == nil || !strings.Contains(err.Error(), "choose a folder outside of it") {
			t.Errorf("Checkpoint(%q) = %v, want an error that refuses the folder", to, err)
		}
	}
}

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
			t.Errorf("%s of an empty path: got %v, want an error that says it has no name", name, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the working directory contains %v (%v), want nothing", left, err)
	}
}
