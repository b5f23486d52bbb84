package parquet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/drivertest"
)

// lyingDisk changes one byte of the writes to merged parts.
type lyingDisk struct {
	parts.Disk
	at int // the byte
}

type lyingFile struct {
	parts.File
	left *int
}

func (d lyingDisk) Create(path string) (parts.File, error) {
	f, err := d.Disk.Create(path)
	if err != nil || !strings.HasPrefix(filepath.Base(path), parts.MergeID) {
		return f, err
	}
	left := d.at
	return lyingFile{f, &left}, nil
}

func (f lyingFile) Write(p []byte) (int, error) {
	if i := *f.left; 0 <= i && i < len(p) {
		p = bytes.Clone(p)
		p[i] ^= 0x10
	}
	*f.left -= len(p)
	return f.File.Write(p)
}

// A disk or a library that stores other rows than the parts have must not lose any. The parts are dropped only when the merged part, read
// again, has the same values.
func TestMergedPartsAreReadBack(t *testing.T) {
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "text", Type: datatype.String}}}
	imported := func() *Target {
		target, err := Tables(t.TempDir(), Options{Compression: Plain})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			row := `"` + strconv.Itoa(i) + `","some text"` + "\n"
			f := &driver.File{ID: "file-" + strconv.Itoa(i), Table: table, Slices: []driver.Object{{ID: "s", Rows: 1}}}
			f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(row)), nil
			}
			drivertest.Import(t, target, f)
		}
		return target
	}
	names := func(target *Target) []string {
		names, err := filepath.Glob(filepath.Join(target.Path(table.ID), "*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	target := imported()
	drivertest.Compact(t, target, table)
	whole := names(target)
	if len(whole) != 1 {
		t.Fatalf("parts %q, want one", whole)
	}
	data, err := os.ReadFile(whole[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]int{
		"the first value": bytes.Index(data, []byte("some text")), "a length": bytes.Index(data, []byte("some text")) - 4,
		"the magic of the end": len(data) - 1, "the length of the footer": len(data) - 8,
	} {
		target := imported()
		target.folder.FS = lyingDisk{at: at}
		if err := target.Compact(t.Context(), table); err == nil {
			t.Errorf("%s is stored wrongly, and Compact = nil", what)
		}
		if n := len(names(target)); n != 8 {
			t.Errorf("%s is stored wrongly, and %d parts are left of 8, want 8", what, n)
		}
		target.folder.FS = parts.Disk{}
		if err := target.Compact(t.Context(), table); err != nil || len(names(target)) != 1 {
			t.Errorf("%s: the next Compact: got %v, %d parts, want no error, 1", what, err, len(names(target)))
		}
	}
}

// mergingDisk merges the parts of a table before a look at one of them, when others have found it.
type mergingDisk struct {
	parts.Disk
	looks, found int
	merge        func()
}

func (d *mergingDisk) Stat(path string) (fs.FileInfo, error) {
	if filepath.Ext(path) == extension {
		if d.looks++; d.looks == d.found+1 {
			d.merge()
		}
	}
	return d.Disk.Stat(path)
}

// An attempt that is repeated, after a kill, finds the part of the first one, and so does who counts its rows. A merge may replace the part
// while it is looked at.
func TestLooksBesideAMerge(t *testing.T) {
	for name, c := range map[string]struct {
		found int
		look  func(target *Target, f *driver.File) error
	}{
		"repeated import": {1, func(target *Target, f *driver.File) error { return target.Import(t.Context(), f) }},
		"count": {1, func(target *Target, f *driver.File) error {
			n, err := target.CountFile(t.Context(), f.Table, f.ID)
			if err == nil && n != 1 {
				err = fmt.Errorf("%d rows", n)
			}
			return err
		}},
		"taken away": {2, func(target *Target, f *driver.File) error {
			_, err := target.TakenAway(t.Context(), f.Table, f.ID)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) { lookBesideAMerge(t, c.found, c.look) })
	}
}

func lookBesideAMerge(t *testing.T, found int, look func(target *Target, f *driver.File) error) {
	root := t.TempDir()
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}}}
	target, other := tables(t, root), tables(t, root)
	file := func(i int) *driver.File {
		return &driver.File{
			ID: "file-" + strconv.Itoa(i), Table: table, Slices: []driver.Object{{ID: "s", Rows: 1}},
			OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(`"` + strconv.Itoa(i) + `"` + "\n")), nil
			},
		}
	}
	for i := range 8 {
		drivertest.Import(t, target, file(i))
	}
	merged := false
	target.folder.FS = &mergingDisk{found: found, merge: func() {
		if err := other.Compact(t.Context(), table); err != nil {
			t.Error(err)
		}
		merged = true
	}}
	if err := look(target, file(0)); err != nil || !merged {
		t.Errorf("got %v, a merge at the same time: %v, want no error, true", err, merged)
	}
	for i := range 8 {
		if n, err := target.CountFile(t.Context(), table, file(i).ID); n != 1 || err != nil {
			t.Errorf("file %d has %d rows, %v", i, n, err)
		}
	}
}

func tables(t *testing.T, root string) *Target {
	target, err := Tables(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return target
}
