package buffertest

import (
	"errors"
	"sync"

	"github.com/forebay/forebay/driver"
)

// voidFiles rules out files before, after and during their import.
func voidFiles(t tb, b *bench) {
	voider, ok := b.Target.(driver.Voider)
	switch {
	case !ok:
		t.Skipf("the target is not a driver.Voider")
	case b.atLeastOnce:
		t.Fatalf("a target that promises at least once cannot rule out an import: it is no driver.Voider")
	case b.staging != nil:
		t.Skipf("the target may read slices by itself, and parts of a file are not in staging")
	}
	table := eventsTable()
	b.mustEnsure(table)
	kept := newFile("file-1", table, makeRows(1, 30, 3))
	b.mustStore(kept)
	gone := newFile("file-2", table, makeRows(31, 30, 3))
	expect := func(b *bench, voider driver.Voider) {
		t.Helper()
		for range 2 {
			b.expectVoid(voider, table, gone.id, false)
			b.expectVoid(voider, table, kept.id, true)
			if err := b.importFile(t.Context(), gone); !errors.Is(err, driver.ErrVoid) || !driver.IsPermanent(err) {
				t.Errorf("Import of a file that is ruled out = %v, want driver.Permanent of an error that matches driver.ErrVoid", err)
			}
			b.mustStore(kept)
			b.expectCount(table, gone.id, 0)
			b.expectCount(table, kept.id, 30)
		}
	}
	expect(b, voider)
	if b.reopen == nil {
		return
	}
	next := *b
	next.Target = b.reopen()
	expect(&next, next.Target.(driver.Voider))

	// An attempt that was left alone, by another driver, commits before the file is ruled out or not at all.
	abandoned := newFile("file-3", table, makeRows(61, 60, 3))
	reading, release := make(chan struct{}), make(chan struct{})
	abandoned.fault = heldAt(1, reading, release)
	var wg sync.WaitGroup
	var importErr, voidErr error
	var imported bool
	wg.Go(func() { importErr = b.importFile(t.Context(), abandoned) })
	<-reading
	began := make(chan struct{})
	wg.Go(func() {
		close(began)
		imported, voidErr = next.Target.(driver.Voider).Void(t.Context(), table, abandoned.id)
	})
	<-began
	close(release)
	wg.Wait()
	if voidErr != nil { // it may give up on a lock
		if imported, voidErr = next.Target.(driver.Voider).Void(t.Context(), table, abandoned.id); voidErr != nil {
			t.Fatalf("Void = %v, also when the import beside it has ended", voidErr)
		}
	}
	if imported {
		b.expectRows(table.ID, kept, abandoned)
	} else {
		b.expectRows(table.ID, kept)
	}
	if (importErr == nil) != imported && importErr == nil {
		t.Errorf("Import = nil beside Void = %v", imported)
	}
	b.expectVoid(voider, table, abandoned.id, imported)
}

func (b *bench) expectVoid(voider driver.Voider, table driver.Table, id string, want bool) {
	b.t.Helper()
	if imported, err := voider.Void(b.t.Context(), table, id); err != nil || imported != want {
		b.t.Errorf("Void(%s) = %v, %v, want %v", id, imported, err, want)
	}
}
