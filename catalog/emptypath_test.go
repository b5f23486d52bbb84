package catalog_test

import (
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay/catalog"
)

// An empty path is a mistake. It would stand for the working directory of the process.
func TestEmptyPathIsNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := catalog.OpenStore("", nil); err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("OpenStore of an empty path: %v, want an error that says it has no name", err)
	}
	store, err := catalog.OpenStore("catalog", nil)
	must(t, err)
	if err := store.(catalog.Checkpointer).Checkpoint(""); err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("Checkpoint into an empty path: %v, want an error that says it has no name", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 1 {
		t.Errorf("the working directory contains %v (%v), want the store alone", left, err)
	}
}
