//go:build linux

package duckdb_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/proctest"
)

var fullDiskTable = driver.Table{ID: "t", Columns: columns(datatype.Int64, datatype.String)}

// fullDiskRows do not fit where the log may grow by a tenth of them.
func fullDiskRows() (rows [][]string) {
	for i := range 2000 {
		rows = append(rows, []string{fmt.Sprint(i), strings.Repeat(fmt.Sprint(i, " "), 200)})
	}
	return rows
}

// The log cannot grow while an import commits. The import fails. Once there is room, the next attempt stores the rows once,
// and the earlier rows stay, for the next process too.
func TestCommitOnFullDisk(t *testing.T) {
	if path, ok := proctest.Child(); ok {
		importOnFullDisk(t, path)
		return
	}
	if testing.Short() {
		t.Skip("it starts a process")
	}
	path := filepath.Join(t.TempDir(), "a.duckdb")
	p := proctest.Start(t, t.Name(), path)
	defer p.Kill()
	if out, err := p.Wait(); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	target := open(t, path, duckdb.Options{Threads: 1})
	drivertest.Import(t, target, file("full", fullDiskTable, fullDiskRows()...))
	expectRows(t, target, "t", append([][]string{{"-1", "before"}}, fullDiskRows()...)...)
}

// importOnFullDisk runs in a process whose files must no longer grow.
func importOnFullDisk(t *testing.T, path string) {
	signal.Ignore(syscall.SIGXFSZ) // a write gives EFBIG then
	target := open(t, path, duckdb.Options{Threads: 1})
	drivertest.Import(t, target, file("before", fullDiskTable, []string{"-1", "before"}))
	log, err := os.Stat(path + ".wal")
	if err != nil {
		t.Fatal(err)
	}
	database, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	free := limit.Cur
	setLimit := func(bytes uint64) {
		limit.Cur = bytes
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	setLimit(uint64(max(log.Size(), database.Size())) + 64<<10)
	full := file("full", fullDiskTable, fullDiskRows()...)
	for range 2 {
		var refused *driver.RowsError
		if err := target.Import(t.Context(), full); err == nil || driver.IsPermanent(err) || errors.As(err, &refused) {
			t.Errorf("Import = %v, want an error that a retry fixes", err)
		}
	}
	setLimit(free)
	drivertest.Import(t, target, full)
}
