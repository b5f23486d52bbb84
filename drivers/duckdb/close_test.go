package duckdb_test

import (
	"context"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
)

// Close waits for a running import, even if its caller has given up. Later calls fail because the target is closed.
func TestCloseWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.duckdb")
	target, err := duckdb.Open(path, duckdb.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	table := driver.Table{ID: "t", Creation: "mark", Columns: columns(datatype.Int64)}
	if err := target.Ensure(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	var closed, early atomic.Bool
	started, release := make(chan struct{}), make(chan struct{})
	f := file("f", table, []string{"1"})
	f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
		close(started)
		<-release
		for range 10_000 { // a Close that does not wait returns meanwhile
			runtime.Gosched()
		}
		early.Store(closed.Load())
		return io.NopCloser(strings.NewReader("\"1\"\n")), nil
	}
	imported, ended := make(chan error, 1), make(chan error, 2)
	go func() { imported <- target.Import(t.Context(), f) }()
	<-started
	for range 2 {
		go func() {
			err := target.Close()
			closed.Store(true)
			ended <- err
		}()
	}
	for err == nil {
		_, err = target.CountFile(t.Context(), table, "f")
	}
	other := driver.Table{ID: "u", Columns: table.Columns}
	for what, err := range map[string]error{
		"CountFile": err, "Ensure": target.Ensure(t.Context(), other), "Import": target.Import(t.Context(), file("g", other, []string{"1"})),
		"Uncreate": target.Uncreate(t.Context(), "u", "mark"), "Compact": target.Compact(t.Context(), other),
	} {
		if err == nil || !strings.Contains(err.Error(), "the target is closed") || driver.IsPermanent(err) {
			t.Errorf("%s = %v, want that the target is closed", what, err)
		}
	}
	close(release)
	for _, errs := range []chan error{imported, ended, ended} {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if early.Load() {
		t.Error("Close returned while the import ran")
	}
	expectRows(t, open(t, path, duckdb.Options{Threads: 1}), "t", []string{"1"})
}
