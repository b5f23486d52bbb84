package dir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/forebay/forebay/driver"
)

// An empty path is a mistake. It would stand for the working directory of the process.
func TestEmptyPathIsNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, err := range map[string]error{
		"Ensure": Tables("").Ensure(t.Context(), faultTable),
		"Import": Tables("").Import(t.Context(), newFile("file-1", faultTable, faultRows)),
		"Put":    Staging("").Put(t.Context(), driver.Object{ID: "slice-1", Rows: 1}, bytesSource("x")),
	} {
		if !driver.IsPermanent(err) {
			t.Errorf("%s below an empty path = %v, want a permanent error", name, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the working directory contains %v (%v), want nothing", left, err)
	}
}

// TestPathIsAFile checks that where the path of the tables or of the staging is a file, or leads through one, the error is permanent and a
// definition is refused at once.
func TestPathIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, path := range []string{file, filepath.Join(file, "below"), filepath.Join(file, "far", "below")} {
		for name, err := range map[string]error{
			"Tables(%q).Ensure": Tables(path).Ensure(t.Context(), faultTable),
			"Tables(%q).Import": Tables(path).Import(t.Context(), newFile("file-1", faultTable, faultRows)),
			"Staging(%q).Put":   Staging(path).Put(t.Context(), driver.Object{ID: "slice-1", Rows: 1}, bytesSource("x")),
		} {
			if !driver.IsPermanent(err) || !errors.Is(err, syscall.ENOTDIR) {
				t.Errorf(name+" = %v, want a permanent error that the path is no folder", path, err)
			}
		}
	}
}
