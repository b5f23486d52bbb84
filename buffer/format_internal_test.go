package buffer

import (
	"errors"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
)

// A release refuses a folder of a later version by its file, before it opens the store.
func TestAnEarlierReleaseRefusesTheFormat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/"+formatFile, []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *FormatError
	if _, err := checkFormat(vfs.Default, dir, format.Oldest); !errors.As(err, &refused) || refused.Found != "2" || refused.Known != "1" {
		t.Errorf("checkFormat: %v", err)
	}
	if err := os.WriteFile(dir+"/"+formatFile, []byte("3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := checkFormat(vfs.Default, dir, format.Typed); !errors.As(err, &refused) || refused.Found != "3" || refused.Known != "1 to 2" {
		t.Errorf("checkFormat: %v", err)
	}
	if version, err := checkFormat(vfs.Default, dir, format.Newest); version != 3 || err != nil {
		t.Errorf("checkFormat: %d, %v", version, err)
	}
	if version, err := checkFormat(vfs.Default, t.TempDir(), format.Newest); version != 0 || err != nil {
		t.Errorf("checkFormat of an empty folder: %d, %v", version, err)
	}
}
