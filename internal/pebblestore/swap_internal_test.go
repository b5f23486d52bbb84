package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/disktest"
)

// countdown is a disk that fails at one change, and at all that follow.
type countdown struct {
	vfs.FS
	left int
}

var errCut = errors.New("the power is cut")

func (c *countdown) change() error {
	if c.left--; c.left < 0 {
		return errCut
	}
	return nil
}

func (c *countdown) Rename(from, to string) error {
	return errors.Join(c.change(), ifAlive(c, func() error { return c.FS.Rename(from, to) }))
}

func (c *countdown) Remove(name string) error {
	return errors.Join(c.change(), ifAlive(c, func() error { return c.FS.Remove(name) }))
}

func (c *countdown) RemoveAll(name string) error {
	return errors.Join(c.change(), ifAlive(c, func() error { return c.FS.RemoveAll(name) }))
}

func (c *countdown) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := c.change(); err != nil {
		return nil, err
	}
	return c.FS.Create(name, category)
}

func ifAlive(c *countdown, change func() error) error {
	if c.left < 0 {
		return nil
	}
	return change()
}

// However far a swap has come when the power is cut, the next opening ends it. The new store is in its place, the damaged
// one is whole in its folder, and nothing else is touched.
func TestSwapIsFinishedAfterEveryCut(t *testing.T) {
	for steps := 0; ; steps++ {
		mem := disktest.New(t)
		must(t, mem.MkdirAll("data/"+NewFolder, 0o700))
		for name, text := range map[string]string{
			"data/000001.log": "old", "data/MANIFEST-000001": "old", "data/000002.sst": "old", "data/forebay-format": "1\n",
			"data/" + NewFolder + "/000001.log": "new", "data/" + NewFolder + "/MANIFEST-000001": "new",
		} {
			put(t, mem, name, text)
		}
		must(t, NoteClosed(mem, "data"))
		disk := &countdown{FS: mem, left: steps}
		err := Swap(disk, "data", "damaged-1")
		if err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		begun := slices.Contains(list(t, mem, "data"), swapNote) || err == nil
		must(t, FinishSwap(mem, "data"))
		want := "000001.log=new MANIFEST-000001=new forebay-format=1 | 000001.log=old 000002.sst=old MANIFEST-000001=old"
		if got := content(t, mem, "data") + " | " + content(t, mem, "data/damaged-1"); begun && got != want {
			t.Fatalf("cut after %d changes: %s\nwant %s", steps, got, want)
		}
		if err == nil {
			if steps < 8 {
				t.Errorf("the swap takes %d changes: the disk does not count them", steps)
			}
			return
		}
	}
}

func TestSwapNoteThatIsDamagedStopsTheOpening(t *testing.T) {
	mem := disktest.New(t)
	must(t, mem.MkdirAll("data", 0o700))
	must(t, FinishSwap(mem, "data"))
	must(t, WriteNote(mem, "data", swapNote, "0ut damaged-1\n"))
	if err := FinishSwap(mem, "data"); err == nil || !strings.Contains(err.Error(), "move its files") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func put(t *testing.T, disk vfs.FS, name, text string) {
	t.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write([]byte(text))
	must(t, errors.Join(err, f.Close()))
}

func list(t *testing.T, disk vfs.FS, dir string) []string {
	t.Helper()
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	slices.Sort(names)
	return names
}

// content returns the files of a folder with their texts.
func content(t *testing.T, disk vfs.FS, dir string) string {
	t.Helper()
	var out []string
	for _, name := range list(t, disk, dir) {
		if info, err := disk.Stat(disk.PathJoin(dir, name)); err != nil || info.IsDir() {
			continue
		}
		text, err := ReadNote(disk, disk.PathJoin(dir, name), maxNote)
		must(t, err)
		out = append(out, fmt.Sprintf("%s=%s", name, strings.TrimSpace(text)))
	}
	return strings.Join(out, " ")
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}
