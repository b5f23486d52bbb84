package bucket_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/buckettest"
)

// An object that has the name of a part but different rows is not taken for the part, even if it has as many. The rows of a file may have
// different bytes, if they come from another release, from other options, or from a table that has grown since.
func TestPartIsComparedWithItsFile(t *testing.T) {
	w := newWorld(t)
	url := buckettest.S3URL(w.server, w.name)
	proxied := buckettest.S3URL(w.proxy.Address, w.name)
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "a", Type: datatype.String}}}
	importFile := func(id string, o bucket.TablesOptions, table driver.Table, cells ...string) error {
		o.Scratch = t.TempDir()
		err := openTables(t, url, o).Import(t.Context(), file(id, table, cells...))
		if left, _ := os.ReadDir(o.Scratch); len(left) > 0 {
			t.Errorf("%s: %d folders are left, want 0", id, len(left))
		}
		return err
	}
	const key = "events/file-1.2.parquet"
	check(t, importFile("file-1", bucket.TablesOptions{}, table, "a", "b"))
	own := w.get(t, key)
	for name, data := range map[string][]byte{
		"other rows": w.part(t, "x", table, "a", "c"), "its rows in another order": w.part(t, "x", table, "b", "a"), "no Parquet": []byte("no rows"), "nothing": nil,
		"a torn part": own[:len(own)/2], "a longer one": append(append([]byte(nil), own...), 0), "other columns": w.part(t, "x", driver.Table{
			ID: "others", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "b", Type: datatype.String}},
		}, "a", "b"), "a large object": bytes.Repeat([]byte("large"), 2<<20),
	} {
		w.put(t, key, data)
		err := importFile("file-1", bucket.TablesOptions{}, table, "a", "b")
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), key+" is an object with other rows") {
			t.Errorf("Import beside an object with %s = %v, want a permanent error that names %s", name, err, key)
		}
		if got := w.get(t, key); !bytes.Equal(got, data) {
			t.Errorf("the object with %s was replaced", name)
		}
	}
	w.put(t, key, own)
	check(t, importFile("file-1", bucket.TablesOptions{}, table, "a", "b"))

	check(t, importFile("file-1", bucket.TablesOptions{Compression: parquet.Snappy, RowGroup: 1}, table, "a", "b"))
	grown := table
	grown.Extend = true
	grown.Columns = append(append([]datatype.Column(nil), table.Columns...), datatype.Column{Name: "n", Type: datatype.Int64})
	tables := openTables(t, url, bucket.TablesOptions{Scratch: t.TempDir()})
	check(t, tables.Extend(t.Context(), grown))
	table.Extend = true // the file is older than the column
	check(t, importFile("file-1", bucket.TablesOptions{}, table, "a", "b"))
	if got := w.get(t, key); !bytes.Equal(got, own) {
		t.Error("the part was replaced")
	}

	// What cannot be read is compared again.
	viaProxy := openTables(t, proxied, bucket.TablesOptions{Scratch: t.TempDir()})
	w.proxy.First(10, buckettest.TornAnswer, func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".parquet")
	})
	if err := viaProxy.Import(t.Context(), file("file-1", table, "a", "b")); err == nil || driver.IsPermanent(err) {
		t.Errorf("Import that cannot read the part = %v, want an error that a retry fixes", err)
	}
}

// The same for the parts of a table that is split. Each day is compared.
func TestPartOfADayIsCompared(t *testing.T) {
	w := newWorld(t)
	o := bucket.TablesOptions{PartitionBy: "day", Scratch: t.TempDir()}
	tables := openTables(t, buckettest.S3URL(w.server, w.name), o)
	cells := []string{"2026-11-20", "2026-11-21", "2026-11-20"}
	check(t, tables.Import(t.Context(), file("file-1", dayTable, cells...)))
	const key = "events/dt=2026-11-20/file-1.2.parquet"
	own := w.get(t, key)
	w.put(t, key, []byte("no rows"))
	w.remove(t, "events/dt=2026-11-21/file-1.1.parquet")
	if err := tables.Import(t.Context(), file("file-1", dayTable, cells...)); !driver.IsPermanent(err) || !strings.Contains(err.Error(), key) {
		t.Errorf("Import = %v, want a permanent error that names %s", err, key)
	}
	w.put(t, key, own)
	check(t, tables.Import(t.Context(), file("file-1", dayTable, cells...)))
	if rows := w.rows(t, "", "events"); len(rows) != 3 {
		t.Errorf("got %d rows, want 3", len(rows))
	}
}

// part returns the bytes of a part with these rows, which is stored elsewhere.
func (w *world) part(t *testing.T, id string, table driver.Table, cells ...string) []byte {
	t.Helper()
	url := strings.Replace(buckettest.S3URL(w.server, w.name), "?", "/elsewhere?", 1)
	tables := openTables(t, url, bucket.TablesOptions{Scratch: t.TempDir()})
	check(t, tables.Import(t.Context(), file(id, table, cells...)))
	key := "elsewhere/" + table.ID + "/" + id + ".2.parquet"
	defer w.remove(t, key)
	return w.get(t, key)
}
