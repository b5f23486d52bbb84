package platform_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi/platform"
)

// A directory has one server, however its path is spelled. A refused Open leaves the working directories of jobs alone.
func TestOneServerForEachSpelling(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	opts := platform.Options{Token: masterToken, Logger: slog.New(slog.DiscardHandler)}
	first, err := platform.Open(filepath.Join(base, "data"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", "link"); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join("data", "runs", "run-1")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, spelling := range []string{filepath.Join(base, "data"), "data", "./data/", "link", filepath.Join(base, "link")} {
		if second, err := platform.Open(spelling, opts); err == nil {
			second.Close()
			t.Errorf("%q was opened while %q is open", spelling, filepath.Join(base, "data"))
		} else if !strings.Contains(err.Error(), "in use") {
			t.Errorf("%q: got error %q, want that the directory is in use", spelling, err)
		}
	}
	if _, err := os.Stat(run); err != nil {
		t.Errorf("a refused Open removed the working directory of a job: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := platform.Open("link", opts)
	if err != nil {
		t.Fatalf("after the first server was closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
