package buffertest

import "github.com/forebay/forebay/driver"

// alone checks a target that implements [driver.Exclusive]. All processes ask for the same lease, and none is in the way of another between
// two calls.
func alone(t tb, b *bench) {
	first, ok := b.Target.(driver.Exclusive)
	if !ok {
		t.Skipf("the target is not a driver.Exclusive")
	}
	if b.reopen == nil {
		t.Skipf("the harness has no Reopen")
	}
	other := b.reopen()
	second := other.(driver.Exclusive)
	table := eventsTable()
	same := func(when string) {
		t.Helper()
		one, two := first.Alone(table.ID), second.Alone(table.ID)
		if one != two || first.Alone(table.ID) != one {
			t.Errorf("%s Alone is %q in one process and %q in another: name what all processes share, for example the path", when, one, two)
		}
	}
	same("before the table exists")
	here := b.Target
	var files []*testFile
	for i, target := range []driver.Target{here, other, here} {
		f := newFile([]string{"file-1", "file-2", "file-3"}[i], table, makeRows(uint64(1+i), 10, 3))
		b.Target = target
		b.mustEnsure(table)
		same("after a call of Ensure")
		b.mustImport(f)
		same("after a call of Import")
		files = append(files, f)
	}
	b.Target = other // whose rows the harness reads
	b.expectFiles(table.ID, files...)
}
