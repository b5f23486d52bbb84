package bucket_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/internal/buckettest"
	"github.com/forebay/forebay/internal/proctest"
)

func openTables(t *testing.T, url string, o bucket.TablesOptions) *bucket.Tables {
	t.Helper()
	tables, err := bucket.OpenTables(t.Context(), url, o)
	check(t, err)
	t.Cleanup(func() { check(t, tables.Close()) })
	return tables
}

// rows reads a table with the SDK and the library of Parquet alone.
func (w *world) rows(t *testing.T, prefix, table string) (rows [][]string) {
	t.Helper()
	var columns []datatype.Column
	var paths []string
	folder := ""
	keys := w.keys(t)
	local := t.TempDir()
	for _, key := range keys {
		if dir, _, ok := strings.Cut(key, "/_forebay/"); ok && (prefix == "" || strings.HasPrefix(key, prefix+"/")) {
			var d struct {
				ID      string
				Columns []datatype.Column
			}
			check(t, json.Unmarshal(w.get(t, key), &d))
			if d.ID == table {
				columns, folder = d.Columns, dir+"/" // the newest comes last
			}
		}
	}
	for _, key := range keys {
		if folder == "" || !strings.HasPrefix(key, folder) || !strings.HasSuffix(key, ".parquet") {
			continue
		}
		path := filepath.Join(local, fmt.Sprintf("%06d", len(paths)))
		check(t, os.WriteFile(path, w.get(t, key), 0o600))
		paths = append(paths, path)
	}
	for _, path := range paths {
		part, err := parquettest.ReadPart(path, columns)
		check(t, err)
		rows = append(rows, part...)
	}
	return rows
}

func (w *world) get(t *testing.T, key string) []byte {
	t.Helper()
	out, err := w.sdk.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &w.name, Key: &key})
	check(t, err)
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	check(t, err)
	return data
}

// harness keeps each target below a separate prefix.
func harness(w func() *world, o bucket.TablesOptions) buffertest.TargetHarness {
	var prefix string
	url := func() string {
		return strings.Replace(buckettest.S3URL(w().server, w().name), "?", "/"+prefix+"?", 1)
	}
	reopen := func(t *testing.T) driver.Target { return openTables(t, url(), o) }
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			prefix = fmt.Sprintf("lake-%d", nextName.Add(1))
			return reopen(t)
		},
		Reopen: reopen,
		Rows:   func(t *testing.T, table string) [][]string { return w().rows(t, prefix, table) },
		Process: &buffertest.Process{
			Place: func(*testing.T) string { return url() },
			Open:  func(t *testing.T, place string) driver.Target { return openTables(t, place, o) },
		},
		Typed: true, TextOnly: true, Unordered: o.PartitionBy != "",
		Refusal: &buffertest.Refusal{
			Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "text"}},
			Good:    []string{"1", "é"}, Bad: []string{"1", "\xe9"}, Column: "text",
		},
	}
}

// lazily makes a world for the process that needs one.
func lazily(t *testing.T) func() *world { return sync.OnceValue(func() *world { return newWorld(t) }) }

func TestConformance(t *testing.T) {
	w := newWorld(t)
	for name, o := range map[string]bucket.TablesOptions{"plain": {}, "days": {PartitionBy: "c_timestamp"}} {
		t.Run(name, func(t *testing.T) {
			o.Scratch = t.TempDir()
			buffertest.Target(t, harness(func() *world { return w }, o))
			if left, _ := os.ReadDir(o.Scratch); len(left) > 0 {
				t.Errorf("%d folders are left in the scratch folder, want 0", len(left))
			}
		})
	}
}

func TestKills(t *testing.T) {
	w := lazily(t)
	if _, ok := proctest.Child(); !ok && !testing.Short() {
		w()
		keepScratch(t)
	}
	buffertest.Kills(t, harness(w, bucket.TablesOptions{}))
}

// keepScratch lets processes that are killed leave their scratch in a folder of the test.
func keepScratch(t *testing.T) { t.Setenv("TMPDIR", t.TempDir()) }

// file has a row for each cell of its only column in addition to the id.
func file(id string, table driver.Table, cells ...string) *driver.File {
	var data strings.Builder
	for i, c := range cells {
		fmt.Fprintf(&data, "\"%d\",\"%s\"\n", i, c)
	}
	return &driver.File{
		ID: id, Table: table, Rows: int64(len(cells)),
		Slices: []driver.Object{{ID: id + "-0", Rows: int64(len(cells))}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(data.String())), nil
		},
	}
}

// A file of several days is not there at once. The next attempt puts the missing parts, and nothing twice.
func TestImportOfDaysIsCompleted(t *testing.T) {
	w := newWorld(t)
	tables := openTables(t, buckettest.S3URL(w.proxy.Address, w.name), bucket.TablesOptions{PartitionBy: "day", Scratch: t.TempDir()})
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "day", Type: datatype.Date}}}
	f := file("file-1", table, "2026-11-20", "2026-11-21", "2026-11-22", "2026-11-21")
	check(t, tables.Ensure(t.Context(), table))
	w.proxy.Break(func(r *http.Request) buckettest.Fault {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "2026-11-22") {
			return buckettest.SlowDown
		}
		return buckettest.None
	})
	if err := tables.Import(t.Context(), f); err == nil || driver.IsPermanent(err) {
		t.Fatalf("Import = %v, want an error that a retry fixes", err)
	}
	if n := len(w.rows(t, "", "events")); n != 3 {
		t.Errorf("%d rows are there, want the rows of two days", n)
	}
	count := func(want int64) {
		t.Helper()
		if n, err := tables.CountFile(t.Context(), table, "file-1"); n != want || err != nil {
			t.Errorf("CountFile = %d, %v, want %d", n, err, want)
		}
	}
	count(3)
	w.proxy.Break(nil)
	for range 2 {
		check(t, tables.Import(t.Context(), f))
		count(4)
	}
	want := []string{
		"events/_forebay/000001.json", "events/dt=2026-11-20/file-1.1.parquet",
		"events/dt=2026-11-21/file-1.2.parquet", "events/dt=2026-11-22/file-1.1.parquet",
	}
	if got := w.keys(t); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
}

// Neither a lost response nor changed options change a table.
func TestTableStaysSplit(t *testing.T) {
	w := newWorld(t)
	url := buckettest.S3URL(w.proxy.Address, w.name)
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "day", Type: datatype.Date}}}
	w.proxy.First(1, buckettest.Lost, method(http.MethodPut))
	check(t, openTables(t, url, bucket.TablesOptions{}).Import(t.Context(), file("file-1", table, "2026-11-20")))
	check(t, openTables(t, url, bucket.TablesOptions{PartitionBy: "day"}).Import(t.Context(), file("file-2", table, "2026-11-21")))
	want := []string{"events/_forebay/000001.json", "events/file-1.1.parquet", "events/file-2.1.parquet"}
	if got := w.keys(t); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
}

// Objects that a console or a user puts next to the definitions are not taken for definitions.
func TestObjectsBesideDefinitions(t *testing.T) {
	w := newWorld(t)
	tables := openTables(t, buckettest.S3URL(w.server, w.name), bucket.TablesOptions{Scratch: t.TempDir()})
	table := driver.Table{ID: "events", Creation: "mark", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "a", Type: datatype.String}}}
	var others []string
	for _, name := range []string{"", "000001.json.bak", "1.json", "0000009.json", "000000.json", "-00001.json", "000009 (copy).json", "zzz"} {
		others = append(others, "events/_forebay/"+name)
	}
	for _, key := range others {
		_, err := w.sdk.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &w.name, Key: &key, Body: strings.NewReader("")})
		check(t, err)
	}
	check(t, tables.Ensure(t.Context(), table))
	table.Columns = append(table.Columns, datatype.Column{Name: "b", Type: datatype.String})
	check(t, tables.Extend(t.Context(), table))
	if columns, err := tables.Columns(t.Context(), "events"); err != nil || len(columns) != 3 {
		t.Errorf("Columns = %v, %v, want 3", columns, err)
	}
	for _, key := range []string{"events/_forebay/000001.json", "events/_forebay/000002.json"} {
		if !slices.Contains(w.keys(t), key) {
			t.Errorf("%s is missing", key)
		}
	}
	check(t, tables.Uncreate(t.Context(), "events", "mark"))
	slices.Sort(others)
	if got := w.keys(t); !slices.Equal(got, others) {
		t.Errorf("objects %q, want %q", got, others)
	}
}

// Many engines create and extend one table at once, and no column is lost.
func TestTableIsChangedByMany(t *testing.T) {
	w := newWorld(t)
	tables := openTables(t, buckettest.S3URL(w.server, w.name), bucket.TablesOptions{})
	const engines = 8
	var wait sync.WaitGroup
	for i := range engines {
		wait.Go(func() {
			table := driver.Table{ID: "events", Extend: true, Columns: []datatype.Column{
				{Name: "id", Type: datatype.Int64}, {Name: fmt.Sprint("c", i), Type: datatype.String},
			}}
			if err := tables.Import(t.Context(), file(fmt.Sprint("file-", i), table, "text")); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	rows := w.rows(t, "", "events")
	if len(rows) != engines || len(rows[0]) != engines+1 {
		t.Errorf("rows %q, want %d of %d columns", rows, engines, engines+1)
	}
}
