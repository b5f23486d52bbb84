package bucket_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/internal/buckettest"
)

// A program reads its own tables back.
func TestReadBack(t *testing.T) {
	w := newWorld(t)
	url := strings.Replace(buckettest.S3URL(w.server, w.name), "?", "/lake?", 1)
	tables := openTables(t, url, bucket.TablesOptions{Scratch: t.TempDir()})
	if _, err := tables.Columns(t.Context(), "events"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("columns of a missing table: %v", err)
	}
	if _, err := tables.Parts(t.Context(), "events"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("parts of a missing table: %v", err)
	}
	if _, err := tables.OpenPart(t.Context(), "events/none.1.parquet"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing part: %v", err)
	}
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "text"}}}
	check(t, tables.Import(t.Context(), file("f1", table, "a", "b")))
	check(t, tables.Import(t.Context(), file("f2", table, "c")))
	columns, err := tables.Columns(t.Context(), "events")
	check(t, err)
	names, err := tables.Parts(t.Context(), "events")
	check(t, err)
	var texts string
	for _, name := range names {
		rc, err := tables.OpenPart(t.Context(), name)
		check(t, err)
		path := filepath.Join(t.TempDir(), "part")
		f, err := os.Create(path)
		check(t, err)
		_, err = f.ReadFrom(rc)
		check(t, errors.Join(err, f.Close(), rc.Close()))
		rows, err := parquettest.ReadPart(path, columns)
		check(t, err)
		for _, row := range rows {
			texts += row[1]
		}
	}
	if len(names) != 2 || len(columns) != 2 || texts != "abc" {
		t.Errorf("parts %q, columns %v, texts %q", names, columns, texts)
	}
}
