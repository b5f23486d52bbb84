package buffertest

import (
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/forebay/forebay/driver"
)

// archiveErase erases one of several archives, if the driver can do that.
func archiveErase(t tb, b *archiveBench) {
	erase := func(archive string) error {
		eraser, ok := b.ArchiveTarget.(archiveEraser)
		if !ok {
			return nil
		}
		return eraser.Erase(t.Context(), archive)
	}
	if _, ok := b.ArchiveTarget.(archiveEraser); !ok {
		return
	}
	mustErase := func(archive string) {
		t.Helper()
		if err := erase(archive); err != nil {
			t.Fatalf("Erase(%s) = %v, want nil", archive, err)
		}
	}
	mustErase(archivedSource)
	var times []time.Time
	for i := range 40 {
		times = append(times, archiveHour.Add(time.Duration(i)*time.Hour))
	}
	// Names that begin like the erased archive, one of them the next generation of its source.
	others := []string{archivedSource + ".2", archivedSource + "-2", archivedSource + "2"}
	for _, other := range others {
		f := rawFile("file-1", archiveHour)
		f.table.ID = other
		b.mustImport(f)
	}
	left := func(archive string) []string {
		t.Helper()
		from, to := anyTime()
		objects, err := b.Objects(t.Context(), archive, from, to)
		if err != nil {
			t.Fatalf("Objects(%s) = %v, want nil", archive, err)
		}
		return objects
	}
	for round := range 2 {
		f := rawFile("file-1", times...)
		b.mustImport(f)
		b.expectAll(f)
		objects := b.mustObjects(anyTime())
		if round == 1 {
			b.ArchiveTarget = b.reopen()
		}
		mustErase(archivedSource)
		mustErase(archivedSource)
		b.expectAll()
		rc, err := b.Open(t.Context(), archivedSource, objects[0])
		if err == nil {
			rc.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open of an erased object = %v, want an error that matches fs.ErrNotExist", err)
		}
	}
	for _, other := range others {
		if objects := left(other); len(objects) != 1 {
			t.Errorf("after the erasure of %s the archive %s has %q, want one object", archivedSource, other, objects)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a.b.c", ".b", "a."} {
		if err := erase(name); !driver.IsPermanent(err) {
			t.Errorf("Erase(%q) = %v, want a permanent error", name, err)
		}
	}
	mustErase(others[0])
	if got := slices.Concat(left(others[0]), left(others[1]), left(others[2])); len(got) != 2 {
		t.Errorf("after the erasure of %s there are %q, want two objects", others[0], got)
	}
}
