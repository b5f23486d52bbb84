package instance

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/pebblestore"
)

// A folder has one node, however its path is spelled.
func TestOneNodeForEachSpellingOfAFolder(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	first, err := openFolder(vfs.Default, filepath.Join(base, "node"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("node", "link"); err != nil {
		t.Fatal(err)
	}
	for _, spelling := range []string{filepath.Join(base, "node"), "node", "link", filepath.Join(base, "link")} {
		second, err := openFolder(vfs.Default, spelling)
		if !errors.As(err, new(*pebblestore.InUseError)) {
			t.Errorf("%q while the folder is open: got error %v, want an InUseError", spelling, err)
		}
		if err == nil {
			second.close()
		}
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openFolder(vfs.Default, "link")
	if err != nil {
		t.Fatalf("after the first node has closed the folder: %v", err)
	}
	if err := again.close(); err != nil {
		t.Fatal(err)
	}
}
