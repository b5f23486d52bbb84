package buffer_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	mem := buffertest.NewMemory()
	b, err := buffer.Open(dir, buffer.Options{Staging: mem, Target: mem})
	must(t, err)
	defer b.Close()
	_, err = buffer.Open(dir, buffer.Options{Staging: mem, Target: mem})
	if err == nil || !strings.Contains(err.Error(), "in use by another engine") {
		t.Fatalf("second open: %v", err)
	}
}

// A power cut right after the first acknowledgement in a new folder. The names of the folders above must be on disk,
// too. Only the last of them was synced once, and the rows were gone with the others.
func TestNewFoldersSurviveAPowerCut(t *testing.T) {
	for _, dir := range []string{"local", "data/local", "a/b/c/local"} {
		fs := disktest.New(t)
		opts := memoryOptions(t, buffertest.NewMemory())
		opts = localdisk.On(opts, fs)
		b, err := buffer.Open(dir, opts)
		must(t, err)
		put(t, b, define(t, b, "a"), 0, 3)
		opts = localdisk.On(opts, fs.Cut(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))}))
		must(t, b.Close())
		after, err := buffer.Open(dir, opts)
		must(t, err)
		if st, _ := after.Sink("a").Stats(); st.Accepted != 3 {
			t.Errorf("%s: got %d rows after the cut, want 3", dir, st.Accepted)
		}
		must(t, after.Close())
	}
}

func TestUnknownFormatIsRefusedUntouched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	mem := buffertest.NewMemory()
	b := openAt(t, dir, diskOptions(mem))
	put(t, b, define(t, b, "a"), 0, 10)
	closeBuffer(t, b)
	for _, version := range []string{"7\n", "1000000\n", "", "one", "1 2"} {
		must(t, os.WriteFile(filepath.Join(dir, "forebay-format"), []byte(version), 0o600))
		before := snapshot(t, dir)
		var format *buffer.FormatError
		if _, err := buffer.Open(dir, diskOptions(mem)); !errors.As(err, &format) || format.Found != strings.TrimSpace(version) {
			t.Errorf("open of format %q: %v", version, err)
		}
		if _, err := buffer.Inspect(dir, buffer.InspectOptions{}); !errors.As(err, &format) {
			t.Errorf("inspect of format %q: %v", version, err)
		}
		wantUntouched(t, before, snapshot(t, dir))
	}
}

func TestDataDirectoryIsPrivate(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "deep", "local")
	b := openAt(t, dir, diskOptions(buffertest.NewMemory()))
	copied := filepath.Join(parent, "backup", "local")
	must(t, b.Checkpoint(t.Context(), copied))
	closeBuffer(t, b)
	for _, d := range []string{dir, filepath.Dir(dir), copied, filepath.Dir(copied)} {
		info, err := os.Stat(d)
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has the mode %o, want 700", d, info.Mode().Perm())
		}
	}
}
