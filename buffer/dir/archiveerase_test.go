package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// cutDisk is a faultyDisk on which a power cut takes back each removal whose folder was not synced after it.
type cutDisk struct {
	faultyDisk
	trash   string
	removed []removal
}

// removal is a file or folder that was removed and may come back. kept is where the content of a file is.
type removal struct{ path, kept string }

func (d *cutDisk) Remove(path string) error {
	if err := d.op("remove", path); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	r := removal{path: path}
	if info.IsDir() {
		err = os.Remove(path)
	} else {
		r.kept = filepath.Join(d.trash, fmt.Sprint(len(d.trace)))
		err = os.Rename(path, r.kept)
	}
	if err == nil {
		d.removed = append(d.removed, r)
	}
	return err
}

func (d *cutDisk) SyncDir(path string) error {
	err := d.faultyDisk.SyncDir(path)
	if err == nil {
		d.removed = slices.DeleteFunc(d.removed, func(r removal) bool { return filepath.Dir(r.path) == path })
	}
	return err
}

// cut cuts the power. What was in a folder whose own removal is durable does not come back.
func (d *cutDisk) cut(t *testing.T) {
	t.Helper()
	for _, r := range slices.Backward(d.removed) {
		err := error(nil)
		if r.kept == "" {
			err = os.Mkdir(r.path, 0o700)
		} else {
			err = os.Rename(r.kept, r.path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	d.removed = nil
}

// An erasure that the power cut or a fault of the disk interrupts at any operation is completed by the next call, and one that has returned
// nil is not taken back. Files of others stay.
func TestErasureSurvivesPowerCuts(t *testing.T) {
	times := []time.Time{someHour, someHour.Add(time.Hour), someHour.Add(2 * time.Hour)}
	root := t.TempDir()
	for _, crash := range []bool{false, true} {
		for n := 0; ; n++ {
			path := filepath.Join(root, fmt.Sprint(crash, n))
			a := Archive(path, ArchiveOptions{})
			must(t, a.Import(t.Context(), newFile("f-1", rawTable, rawRows(times...))))
			notes := filepath.Join(path, "web", "2026-01-02T04", "notes")
			must(t, os.WriteFile(notes, nil, 0o600))
			erase := func(fail int) (*cutDisk, error) {
				disk := &cutDisk{faultyDisk: faultyDisk{root: path, fail: fail, crash: crash}, trash: t.TempDir()}
				a := Archive(path, ArchiveOptions{})
				a.files.FS = disk
				err := a.Erase(t.Context(), "web")
				disk.cut(t)
				return disk, err
			}
			left := func() string {
				t.Helper()
				return objectsOf(t, Archive(path, ArchiveOptions{}), time.Time{}, always)
			}
			disk, err := erase(n)
			if got := left(); err == nil && got != "" {
				t.Fatalf("fault at operation %d: the call returned nil, and the power cut has brought back %q", n, got)
			}
			if _, err := erase(-1); err != nil || left() != "" {
				t.Fatalf("after a fault at operation %d: %v, there are %q", n, err, left())
			}
			if _, err := os.Stat(notes); err != nil {
				t.Fatal(err)
			}
			if len(disk.trace) <= n {
				if n < 10 {
					t.Errorf("only %d operations", n)
				}
				break
			}
		}
	}
}
