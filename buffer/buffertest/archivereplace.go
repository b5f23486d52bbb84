package buffertest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing/iotest"
	"time"

	"github.com/forebay/forebay/driver"
)

// archiveReplace replaces the rows of objects, if the driver can do that.
func archiveReplace(t tb, b *archiveBench) {
	if _, ok := b.ArchiveTarget.(archiveReplacer); !ok {
		return
	}
	replace := func(archive, object string, rows io.Reader) error {
		return b.ArchiveTarget.(archiveReplacer).Replace(t.Context(), archive, object, rows)
	}
	names := func() []string {
		t.Helper()
		all, err := b.ArchiveTarget.(archiveReplacer).Archives(t.Context())
		if err != nil {
			t.Fatalf("Archives = %v, want nil", err)
		}
		return all
	}
	if all := names(); len(all) > 0 {
		t.Errorf("Archives of a new archive = %q, want none", all)
	}
	f := rawFile("file-1", archiveHour, archiveHour, archiveHour.Add(time.Hour))
	other := rawFile("file-2", archiveHour)
	sibling := rawFile("file-1", archiveHour)
	sibling.table.ID = archivedSource + ".2"
	b.mustImport(f, other, sibling)
	if all, want := names(), []string{archivedSource, archivedSource + ".2"}; !slices.Equal(all, want) {
		t.Errorf("Archives = %q, want %q", all, want)
	}
	objects := b.mustObjects(anyTime())
	object := objects[slices.IndexFunc(objects, func(o string) bool { return len(b.mustOpen(o)) == 2 })]
	rows := b.mustOpen(object)
	rows[0][2] = strings.Repeat("erased,\r\n\"", 1000)

	broken := errors.New("the rows cannot be read")
	half := string(archiveCSV(rows))[:100]
	if err := replace(archivedSource, object, io.MultiReader(strings.NewReader(half), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("Replace whose rows fail = %v, want their error", err)
	}
	b.expectAll(f, other)

	for range 2 {
		if err := replace(archivedSource, object, bytes.NewReader(archiveCSV(rows))); err != nil {
			t.Fatalf("Replace(%s) = %v, want nil", object, err)
		}
		if got := b.mustOpen(object); len(got) != 2 || !slices.Equal(got[0], rows[0]) || !slices.Equal(got[1], rows[1]) {
			t.Fatalf("object %s has %.200q after Replace, want %.200q", object, got, rows)
		}
		b.ArchiveTarget = b.reopen()
	}
	b.mustImport(f) // it finds its object
	if got := b.mustOpen(object); len(got) != 2 || !slices.Equal(got[0], rows[0]) {
		t.Errorf("object %s has %.200q after its file was imported again, want the replaced rows", object, got)
	}
	if now := b.mustObjects(anyTime()); !slices.Equal(now, objects) {
		t.Errorf("Objects = %q after Replace, want %q", now, objects)
	}
	for _, o := range objects {
		if o != object && len(b.mustOpen(o)) != 1 {
			t.Errorf("object %s was changed by Replace of %s", o, object)
		}
	}

	absent := strings.Replace(object, "file-1", "file-9", 1)
	if err := replace(archivedSource, absent, bytes.NewReader(archiveCSV(rows))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Replace of an absent object = %v, want an error that matches fs.ErrNotExist", err)
	}
	if now := b.mustObjects(anyTime()); !slices.Equal(now, objects) {
		t.Errorf("Replace of an absent object has made one: %q", now)
	}
	for _, name := range []string{"", "..", "a/b"} {
		if err := replace(name, object, bytes.NewReader(archiveCSV(rows))); !driver.IsPermanent(err) {
			t.Errorf("Replace in %q = %v, want a permanent error", name, err)
		}
	}
	for _, name := range []string{"", "..", "../" + object, "notes.txt"} {
		if err := replace(archivedSource, name, bytes.NewReader(archiveCSV(rows))); err == nil {
			t.Errorf("Replace of the object %q = nil, want an error", name)
		}
	}
}

// archiveCSV returns rows as they are in an object, after the names of the columns.
func archiveCSV(rows [][]string) (data []byte) {
	for _, row := range append([][]string{archiveTable().Names()}, rows...) {
		for i, cell := range row {
			if i > 0 {
				data = append(data, ',')
			}
			data = append(data, '"')
			data = append(append(data, strings.ReplaceAll(cell, `"`, `""`)...), '"')
		}
		data = append(data, '\n')
	}
	return data
}
