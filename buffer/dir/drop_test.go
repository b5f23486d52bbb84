package dir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// TestDrop drops a table twice and makes it again with other columns.
func TestDrop(t *testing.T) {
	root := t.TempDir()
	tables := dir.Tables(root)
	ctx := t.Context()
	if err := tables.Drop(ctx, "in.c-web.events"); err != nil {
		t.Errorf("a table that was never there: %v", err)
	}
	if err := tables.Ensure(ctx, driver.Table{ID: "in.c-web.events", Columns: datatype.UntypedColumns("a")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tables.Drop(ctx, "in.c-web.events"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(tables.Path("in.c-web.events")); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(root, ".tmp")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := tables.Ensure(ctx, driver.Table{ID: "in.c-web.events", Columns: datatype.UntypedColumns("b")}); err != nil {
		t.Errorf("a new table of the same name: %v", err)
	}
}
