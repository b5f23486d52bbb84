package sqltest_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// null is NULL in the rows of a test.
const null = "\x00null"

// ask returns the result of a query as text, a row a line and NULL as the word.
func ask(t *testing.T, query string) string {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, query)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		for i, c := range cells {
			if i > 0 {
				out.WriteByte(',')
			}
			if c.Valid {
				fmt.Fprintf(&out, "%q", c.String)
			} else {
				out.WriteString("NULL")
			}
		}
		out.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, query)
	}
	return out.String()
}

// file returns a file of one slice with rows.
func file(id string, table driver.Table, rows ...[]string) *driver.File {
	var data bytes.Buffer
	for _, row := range rows {
		var cells []string
		for _, c := range row {
			if c != null {
				c = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
			}
			cells = append(cells, strings.TrimPrefix(c, null))
		}
		data.WriteString(strings.Join(cells, ",") + "\n")
	}
	return &driver.File{
		ID: id, Table: table, Slices: []driver.Object{{ID: id + "-0", Rows: int64(len(rows))}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data.Bytes())), nil
		},
	}
}

// The query of the documentation of package dir, with types and with folders of days.
const read = `read_csv('%s/**/*.csv', header = true, %s, union_by_name = true,
	delim = ',', quote = '"', escape = '"', allow_quoted_nulls = false, hive_partitioning = true, hive_types_autocast = false)`

// DuckDB reads values, NULL, the empty text and newlines of all parts, that is, parts that were merged, parts of several days, and parts
// from before a column was added.
func TestDuckDBReadsTables(t *testing.T) {
	tables := dir.TablesWith(t.TempDir(), dir.TablesOptions{PartitionBy: "at", MergeTo: 1 << 20})
	at := datatype.Column{Name: "at", Type: datatype.Timestamp}
	old := driver.Table{ID: "in.c-test.t", Extend: true, Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, at, {Name: "text", Type: datatype.String}}}
	grown := old
	grown.Columns = append(slices.Clone(old.Columns), datatype.Column{Name: "price", Type: datatype.Decimal(10, 2)})
	const first, second = "2026-11-22T23:59:59.999999Z", "2026-11-23T00:00:00.000000Z"
	imports := []*driver.File{
		file("file-1", old, []string{"9007199254740993", first, ""}, []string{"-1", second, null}, []string{"0", null, "NULL"}),
		file("file-2", grown, []string{"3", first, "a\r\n\"b\",,", "0.10"}, []string{"4", second, "007", null}),
	}
	for i := range 20 {
		imports = append(imports, file(fmt.Sprintf("more-%02d", i), grown, []string{"100", first, "x", "1.00"}))
	}
	for _, f := range imports {
		if err := tables.Import(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	want := `"-1","2026-11-23 00:00:00",NULL,NULL,"2026-11-23"
"0",NULL,"NULL",NULL,"__HIVE_DEFAULT_PARTITION__"
"3","2026-11-22 23:59:59.999999","a\r\n\"b\",,","0.10","2026-11-22"
"4","2026-11-23 00:00:00","007",NULL,"2026-11-23"
"9007199254740993","2026-11-22 23:59:59.999999","",NULL,"2026-11-22"
`
	for _, merged := range []bool{false, true} {
		if merged {
			if err := tables.Compact(t.Context(), grown); err != nil {
				t.Fatal(err)
			}
			if parts, _ := filepath.Glob(filepath.Join(tables.Path(grown.ID), "*", "*~*.csv")); len(parts) == 0 {
				t.Fatal("nothing was merged")
			}
		}
		typed := fmt.Sprintf(read, tables.Path(grown.ID), "types = {'id': 'BIGINT', 'at': 'TIMESTAMP', 'text': 'VARCHAR', 'price': 'DECIMAL(10,2)'}")
		got := ask(t, `SELECT id::VARCHAR, "at"::VARCHAR, text, price::VARCHAR, dt::VARCHAR FROM `+typed+` WHERE id <> 100 ORDER BY id`)
		if got != want {
			t.Errorf("merged %t: got\n%swant\n%s", merged, got, want)
		}
		untyped := fmt.Sprintf(read, tables.Path(grown.ID), "all_varchar = true")
		if got := ask(t, `SELECT count(*), count(price), count(text), count(DISTINCT dt) FROM `+untyped); got != "\"25\",\"21\",\"24\",\"3\"\n" {
			t.Errorf("merged %t: as text: %s", merged, got)
		}
	}
}

// The query for DuckDB that the quickstart writes returns the same result as the query for SQLite, which the test of the
// quickstart compares with the rows.
func TestPrintedQuery(t *testing.T) {
	for _, program := range []string{"sqlite3", "perl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	program := filepath.Join(t.TempDir(), "quickstart")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./quickstart")
	build.Dir = filepath.Join("..", "..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	folder := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), program, "-n", "200", "-dir", folder).CombinedOutput(); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	query, err := os.ReadFile(filepath.Join(folder, "query.sql"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.CommandContext(t.Context(), "sh", "-c", "sed s/-box/-csv/ '"+folder+"/query.sh' | sh").CombinedOutput()
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, want)
	}
	got := strings.ReplaceAll(ask(t, "SELECT COLUMNS(*)::VARCHAR FROM ("+strings.TrimSuffix(string(query), ";\n")+")"), `"`, "")
	if got == "" || got != strings.ReplaceAll(string(want), "\r", "") {
		t.Errorf("DuckDB says\n%sSQLite says\n%s", got, want)
	}
}
