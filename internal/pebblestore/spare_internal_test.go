package pebblestore

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/disktest"
)

// After the end pebble continues in memory and may compact tables that only it knows. It must not read the tables that the next
// opening has made under their names, because a row that is then in two tables makes it panic.
func TestAnEndedOpeningReadsNoTablesOfTheNext(t *testing.T) {
	disk := disktest.New(t)
	must(t, disk.MkdirAll("data", 0o700))
	write := func(fs vfs.FS, name, text string) {
		t.Helper()
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		must(t, err)
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		must(t, f.Close())
	}
	read := func(fs vfs.FS, name string) (string, error) {
		f, err := fs.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		return string(text), err
	}
	old := New(disk, "data", func(error) {})
	write(old, "data/000004.sst", "listed")
	write(old, "data/MANIFEST-000001", "000004")
	write(old, "data/000005.sst", "complete")
	old.End(syscall.EIO)
	write(old, "data/000006.sst", "made in memory")
	old.Wait()
	old.sweep()

	next := New(disk, "data", func(error) {})
	for _, name := range []string{"data/000005.sst", "data/000006.sst"} {
		write(next, name, "of the next")
	}
	for name, want := range map[string]string{"data/000004.sst": "listed", "data/000006.sst": "made in memory"} {
		if got, err := read(old, name); err != nil || got != want {
			t.Errorf("the ended opening reads %q from %s, %v; want %q", got, name, err, want)
		}
	}
	if got, err := read(old, "data/000005.sst"); !errors.Is(err, syscall.EIO) {
		t.Errorf("the ended opening reads %q from a table that it has given up, error %v", got, err)
	}
	for _, name := range []string{"data/000005.sst", "data/000006.sst"} {
		if got, err := read(next, name); err != nil || got != "of the next" {
			t.Errorf("the next opening reads %q from %s, %v", got, name, err)
		}
	}
}

// What the engine reads never waits, however much of it is damaged. Only compactions do, which pebble repeats at once.
func TestOnlyCompactionsWaitBeforeDamage(t *testing.T) {
	f := &files{ended: make(chan struct{})}
	for range 100 * damagedAtOnce {
		f.slowDamage()
	}
	if n := f.damaged.Load(); n != 0 {
		t.Errorf("%d reads count as those of compactions, want 0", n)
	}
}
