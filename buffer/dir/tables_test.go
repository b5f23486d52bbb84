package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/fuzztest"
)

func TestIDsStayInTheDirectory(t *testing.T) {
	root := t.TempDir()
	staging, tables := Staging(filepath.Join(root, "staging")), Tables(filepath.Join(root, "tables"))
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/etc/passwd", `a\b`, "A", "a.b", "a\x00", "é", strings.Repeat("a", 65)} {
		obj := driver.Object{ID: id}
		_, openErr := staging.Open(t.Context(), obj)
		_, countErr := tables.CountFile(t.Context(), faultTable, id)
		for op, err := range map[string]error{
			"Put":       staging.Put(t.Context(), obj, bytesSource("x")),
			"Open":      openErr,
			"Delete":    staging.Delete(t.Context(), obj),
			"Import":    tables.Import(t.Context(), newFile(id, faultTable, faultRows)),
			"CountFile": countErr,
		} {
			if !driver.IsPermanent(err) {
				t.Errorf("%s of id %q = %v, want a permanent error", op, id, err)
			}
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("refused ids left %v, %v", entries, err)
	}
	evil := driver.Table{ID: "../../evil", Columns: datatype.UntypedColumns("id", "body")}
	must(t, tables.Import(t.Context(), newFile("file-1", evil, faultRows)))
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 {
		t.Errorf("a table id with a path left %v, %v", entries, err)
	}
}

func TestTablesThatCannotBeDescribed(t *testing.T) {
	tables := Tables(t.TempDir())
	for name, table := range map[string]driver.Table{
		"no id":              {Columns: datatype.UntypedColumns("a")},
		"no columns":         {ID: "t"},
		"id not UTF-8":       {ID: "t\xff", Columns: datatype.UntypedColumns("a")},
		"a column not UTF-8": {ID: "t", Columns: datatype.UntypedColumns("a\xff")},
	} {
		if err := tables.Ensure(t.Context(), table); !driver.IsPermanent(err) {
			t.Errorf("%s: Ensure = %v, want a permanent error", name, err)
		}
		if err := tables.Import(t.Context(), newFile("file-1", table, nil)); !driver.IsPermanent(err) {
			t.Errorf("%s: Import = %v, want a permanent error", name, err)
		}
	}
}

func TestPermissionsArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	root := filepath.Join(t.TempDir(), "data")
	must(t, Tables(filepath.Join(root, "tables")).Import(t.Context(), newFile("file-1", faultTable, faultRows)))
	must(t, Staging(filepath.Join(root, "staging")).Put(t.Context(), driver.Object{ID: "a"}, bytesSource("x")))
	files := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil || files != 3 {
		t.Errorf("walked over %d files, %v, want 3", files, err)
	}
}

// The format on disk is a promise to later releases and to other programs.
func TestFormat(t *testing.T) {
	typed := driver.Table{ID: faultTable.ID, Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64, Required: true}, {Name: "at", Type: datatype.Timestamp}, {Name: `a "b"`},
	}}
	rows := [][]string{{"1", null, ""}, {"2", "2026-11-22T23:59:59.000000Z", "x\r\n\"y\""}}
	const head = "{\n  \"version\": 2,\n  \"id\": \"in.c-test.events\",\n  \"columns\": [\n    "
	typedColumns := head + "{\n      \"name\": \"id\",\n      \"type\": \"int64\",\n      \"required\": true\n    },\n    " +
		"{\n      \"name\": \"at\",\n      \"type\": \"timestamp\"\n    },\n    \"a \\\"b\\\"\"\n  ]"
	const cells = "\"1\",,\"\"\n\"2\",\"2026-11-22T23:59:59.000000Z\",\"x\r\n\"\"y\"\"\"\n"
	for name, tc := range map[string]struct {
		options TablesOptions
		table   driver.Table
		rows    [][]string
		want    map[string]string
	}{
		"untyped": {TablesOptions{}, faultTable, faultRows, map[string]string{
			"table.json": head + "\"id\",\n    \"body\"\n  ]\n}\n",
			"file-1.csv": "\"id\",\"body\"\n\"1\",\"a\r\n\"\"b\"\"\"\n\"2\",\"\"\n\"3\",\"c\"\n",
		}},
		"typed": {TablesOptions{}, typed, rows, map[string]string{
			"table.json": typedColumns + "\n}\n",
			"file-1.csv": "\"id\",\"at\",\"a \"\"b\"\"\"\n" + cells,
		}},
		"no header": {TablesOptions{NoHeader: true}, typed, rows, map[string]string{
			"table.json": typedColumns + ",\n  \"noHeader\": true\n}\n",
			"file-1.csv": cells,
		}},
		"no header, untyped": {TablesOptions{NoHeader: true}, faultTable, faultRows, map[string]string{
			"table.json": strings.Replace(head, "2", "1", 1) + "\"id\",\n    \"body\"\n  ]\n}\n", // earlier releases read it too
			"file-1.csv": "\"1\",\"a\r\n\"\"b\"\"\"\n\"2\",\"\"\n\"3\",\"c\"\n",
		}},
		"no header, merged": {TablesOptions{NoHeader: true, MergeTo: 1}, faultTable, faultRows, map[string]string{
			"table.json": head + "\"id\",\n    \"body\"\n  ],\n  \"noHeader\": true\n}\n",
			"file-1.csv": "\"1\",\"a\r\n\"\"b\"\"\"\n\"2\",\"\"\n\"3\",\"c\"\n",
		}},
		"by day": {TablesOptions{PartitionBy: "at"}, typed, rows, map[string]string{
			"table.json": strings.Replace(typedColumns, "2", "4", 1) + ",\n  \"partition\": \"at\"\n}\n",
			"imports/file-1/dt=__HIVE_DEFAULT_PARTITION__/file-1.1.csv": "\"id\",\"at\",\"a \"\"b\"\"\"\n\"1\",,\"\"\n",
			"imports/file-1/dt=2026-11-22/file-1.1.csv":                 "\"id\",\"at\",\"a \"\"b\"\"\"\n\"2\",\"2026-11-22T23:59:59.000000Z\",\"x\r\n\"\"y\"\"\"\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tables := TablesWith(t.TempDir(), tc.options)
			must(t, tables.Import(t.Context(), newFile("file-1", tc.table, tc.rows)))
			got := make(map[string]string)
			dir, err := filepath.EvalSymlinks(tables.Path(tc.table.ID))
			must(t, err)
			err = fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				data, err := os.ReadFile(filepath.Join(dir, path))
				got[path] = string(data)
				return err
			})
			if err != nil || !maps.Equal(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// A table of a release before headers and types keeps its form.
func TestTableOfVersion1(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "in.c-test.events")
	must(t, os.Mkdir(dir, 0o700))
	const json = `{"version": 1, "id": "in.c-test.events", "columns": ["id", "body"]}`
	place(t, filepath.Join(dir, "table.json"), []byte(json))
	place(t, filepath.Join(dir, "file-0.csv"), csvRow("0", "old"))
	tables := TablesWith(root, TablesOptions{MergeTo: 1 << 20, PartitionBy: "id"})
	want := [][]string{{"0", "old"}}
	for i := range parts.MergeFrom {
		must(t, tables.Import(t.Context(), newFile(fmt.Sprint("file-", i+1), faultTable, faultRows)))
		want = append(want, faultRows...)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "file-1.csv")); string(got) != "\"1\",\"a\r\n\"\"b\"\"\"\n\"2\",\"\"\n\"3\",\"c\"\n" {
		t.Errorf("a new part is %q", got)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "table.json")); string(got) != json {
		t.Errorf("table.json is %q", got)
	}
	for range 2 {
		if got := readTable(t, tables, faultTable.ID); !equalRows(got, want) {
			t.Errorf("got %q", got)
		}
		must(t, tables.Compact(t.Context(), faultTable))
	}
	typed := faultTable
	typed.Columns = []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "body"}}
	var schema *driver.SchemaError
	if err := tables.Ensure(t.Context(), typed); !errors.As(err, &schema) {
		t.Errorf("Ensure with a type = %v, want a SchemaError", err)
	}
}

func TestDefinitionThatIsNotOurs(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"newer":         {`{"version": 5, "columns": {"id": "text"}}`, "version 5, this release knows versions 1 to 4"},
		"without":       {`{}`, "version 0"},
		"damaged new":   {`{"version": 2, "columns": {"id": "text"}}`, "is damaged"},
		"damaged":       {`{"version": 1, "col`, "is damaged"},
		"empty":         {``, "is damaged"},
		"other columns": {`{"version": 1, "id": "in.c-test.events", "columns": 5}`, "is damaged"},
		"other table":   {`{"version": 1, "id": "in.c-test.EVENTS", "columns": ["id", "body"]}`, "shares a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			tables := Tables(t.TempDir())
			must(t, tables.Ensure(t.Context(), faultTable))
			path := filepath.Join(tables.Path(faultTable.ID), "table.json")
			must(t, os.WriteFile(path, []byte(tc.content), 0o600))
			err := tables.Import(t.Context(), newFile("file-1", faultTable, faultRows))
			if !driver.IsPermanent(err) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Import = %v, want a permanent error with %q and the path", err, tc.want)
			}
			if got, _ := os.ReadFile(path); string(got) != tc.content {
				t.Errorf("table.json was changed to %q", got)
			}
		})
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	if _, err := zw.Write(data); err != nil {
		t.Fatal(err)
	}
	must(t, zw.Close())
	return b.Bytes()
}

// Several processes share a directory, and no driver knows of the others.
func TestDriversThatShareADirectory(t *testing.T) {
	root := t.TempDir()
	must(t, Tables(root).Ensure(t.Context(), faultTable))
	const files = 5
	var wg sync.WaitGroup
	for range 4 {
		tables := Tables(root)
		for i := range files {
			wg.Go(func() {
				if err := tables.Import(t.Context(), newFile(fmt.Sprintf("file-%d", i), faultTable, faultRows)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if got := readTable(t, Tables(root), faultTable.ID); len(got) != files*len(faultRows) {
		t.Errorf("got %d rows, want %d", len(got), files*len(faultRows))
	}
	expectNoTemp(t, root)
}

// If two definitions create a table at once, one is refused and the other stays.
func TestDefinitionsThatRace(t *testing.T) {
	for range 10 {
		tables := Tables(t.TempDir())
		const n = 8
		errs := make([]error, n)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				<-start
				errs[i] = tables.Ensure(t.Context(), driver.Table{ID: "t", Columns: datatype.UntypedColumns(fmt.Sprint(i))})
			})
		}
		close(start)
		wg.Wait()
		columns, err := tables.Columns("t")
		must(t, err)
		for i, err := range errs {
			var schema *driver.SchemaError
			if won := columns[0].Name == fmt.Sprint(i); won && err != nil || !won && !errors.As(err, &schema) {
				t.Errorf("the table has column %s, Ensure with column %d = %v", columns[0], i, err)
			}
		}
	}
}

func TestLeftOversAreRemoved(t *testing.T) {
	root := t.TempDir()
	tables := Tables(root)
	temp := func(name string, age time.Duration) string {
		path := filepath.Join(root, parts.TempDir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("x"), 0o600))
		then := time.Now().Add(-age)
		must(t, os.Chtimes(path, then, then))
		return path
	}
	old := temp("file-7.0123", parts.StaleAfter+time.Minute)
	busy := temp("file-8.0123", parts.StaleAfter-time.Minute) // another import is writing it
	same := temp("file-1.0123", 0)                            // an earlier attempt at the same file
	alike := temp("file-11.0123", 0)                          // another file
	must(t, tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)))
	for path, want := range map[string]bool{old: false, busy: true, same: false, alike: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: got %v, want it there: %t", filepath.Base(path), err, want)
		}
	}
}

// A directory that disappears under a running process is created again.
func TestTableThatWasRemoved(t *testing.T) {
	tables := Tables(filepath.Join(t.TempDir(), "tables"))
	for range 2 {
		must(t, tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)))
		if got := readTable(t, tables, faultTable.ID); !equalRows(got, faultRows) {
			t.Errorf("got %q", got)
		}
		must(t, os.RemoveAll(tables.folder.Root))
	}
}

// The checker and the reader agree on rows, however the bytes are cut into writes.
func FuzzRows(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{"", "\"a\"\n", "\"a\",\"b\"\"\"\n\"\",\"\n\"\n", "\"a\"", "\"\"\"", "\"a\",\n", "a\n", "\"a\"\"\n"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		var check rowChecker
		var checkErr error
		for rest := data; len(rest) > 0 && checkErr == nil; {
			n := min(len(rest), int(step)+1)
			_, checkErr = check.Write(rest[:n])
			rest = rest[n:]
		}
		if checkErr == nil {
			checkErr = check.end()
		}
		var again []byte
		var count int64
		r := newRowReader(bytes.NewReader(data))
		for r.Next() {
			var row []string
			for _, cell := range r.Cells() {
				if cell == nil {
					row = append(row, null)
				} else {
					row = append(row, string(cell))
				}
			}
			count++
			again = append(again, csvRow(row...)...)
		}
		readErr := r.Err()
		if (checkErr == nil) != (readErr == nil) {
			t.Fatalf("%q: got %v from the checker and %v from the reader, want two errors or none", data, checkErr, readErr)
		}
		if readErr == nil && (!bytes.Equal(again, data) || count != check.rows) {
			t.Fatalf("%q: read back as %q, %d rows, checker has %d", data, again, count, check.rows)
		}
	})
}

// go test -bench Import ./buffer/dir
func BenchmarkImport(b *testing.B) {
	var plain bytes.Buffer
	const rows = 50_000
	for i := range rows {
		plain.Write(csvRow(fmt.Sprint(i), fmt.Sprintf(`{"event": "click", "user": %d, "page": "/products/%d"}`, i*7919%10_007, i%97)))
	}
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := zw.Write(plain.Bytes()); err != nil {
		b.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		b.Fatal(err)
	}
	for _, slice := range []struct {
		encoding driver.Encoding
		data     []byte
	}{{driver.None, plain.Bytes()}, {driver.Gzip, packed.Bytes()}} {
		for _, compress := range []bool{false, true} {
			b.Run(fmt.Sprintf("slices=%s/gzip=%t", slice.encoding, compress), func(b *testing.B) {
				tables := TablesWith(b.TempDir(), TablesOptions{Gzip: compress})
				b.SetBytes(int64(plain.Len()))
				for i := 0; b.Loop(); i++ {
					f := newFile(fmt.Sprintf("file-%d", i), faultTable, nil)
					f.Slices = []driver.Object{{ID: "slice", Encoding: slice.encoding, Rows: rows}}
					f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
						return io.NopCloser(bytes.NewReader(slice.data)), nil
					}
					if err := tables.Import(b.Context(), f); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}
