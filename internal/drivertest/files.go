package drivertest

import (
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/modetest"
)

// texts is a table of one column.
func texts() driver.Table {
	return driver.Table{ID: "t", Columns: []datatype.Column{{Name: "c0", Type: datatype.String}}}
}

// FilesArePrivate checks that no other user may read the files of a target in a folder, while it is open and after.
func FilesArePrivate(t *testing.T, folder string, target interface {
	driver.Target
	io.Closer
},
) {
	t.Helper()
	for _, id := range []string{"first", "second"} {
		Import(t, target, OneSlice(id, texts(), []string{id}))
		modetest.Private(t, folder)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	modetest.Private(t, folder)
}

// LostDatabase checks that a database that was moved away accepts no rows, although its library continues to write to a file that no longer has a
// name, and does when it is back.
func LostDatabase(t *testing.T, path string, tables Tables) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be moved")
	}
	second := OneSlice("g", texts(), []string{"b"})
	Import(t, tables, OneSlice("f", texts(), []string{"a"}))
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"moved", "replaced"} {
		Permanent(t, "Import into a database that was "+state, tables.Import(t.Context(), second))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	Import(t, tables, second)
	tables.Expect(t, "t", []string{"a"}, []string{"b"})
}
