package duckdb_test

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/proctest"
)

func open(t testing.TB, path string, opts duckdb.Options) *duckdb.Target {
	t.Helper()
	target, err := duckdb.Open(path, opts)
	return drivertest.Opened(t, target, err)
}

// tables lets suites read and change the tables of a target.
func tables(t testing.TB, target *duckdb.Target) drivertest.Tables {
	return drivertest.Tables{
		Target: target,
		Rows:   func(table string) [][]string { return rows(t, target.DB(), table) },
		Exec:   func(statement string) { execute(t, target.DB(), statement) },
	}
}

// execute runs statements as any other user of the database in this process would.
func execute(t testing.TB, db *sql.DB, statements string) {
	t.Helper()
	if _, err := db.Exec(statements); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, statements)
	}
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// rows reads a table as canonical texts, with DuckDB's texts for its types.
func rows(t testing.TB, db *sql.DB, table string) (all [][]string) {
	t.Helper()
	var exprs []string
	for _, column := range drivertest.Texts(t, db, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", table) {
		name := quote(column[0])
		switch column[1] {
		case "TIMESTAMP WITH TIME ZONE":
			name = "strftime(make_timestamp(epoch_us(" + name + ")), '%Y-%m-%dT%H:%M:%S.%fZ')"
		case "DOUBLE":
		case "BLOB":
			name = "to_base64(" + name + ")"
		default:
			name += "::VARCHAR"
		}
		exprs = append(exprs, name)
	}
	if len(exprs) == 0 {
		return nil
	}
	for _, cells := range drivertest.Cells(t, db, "SELECT "+strings.Join(exprs, ", ")+" FROM "+quote(table)+" ORDER BY rowid") {
		row := make([]string, len(exprs))
		for i, c := range cells {
			switch v := c.(type) {
			case nil:
				row[i] = buffertest.Null
			case float64:
				row[i] = string(datatype.AppendFloat64(nil, v))
			case []byte:
				row[i] = base64.StdEncoding.EncodeToString(v)
			default:
				row[i] = fmt.Sprint(v)
			}
		}
		all = append(all, row)
	}
	return all
}

// harness returns the harness for the suite. Each database has its own folder.
func harness() buffertest.TargetHarness {
	var path string
	var db *sql.DB
	reopen := func(t *testing.T) driver.Target {
		target := open(t, path, duckdb.Options{Threads: 2, MemoryLimit: 512 << 20})
		db = target.DB()
		return target
	}
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			path = filepath.Join(t.TempDir(), "odd#%41.duckdb")
			return reopen(t)
		},
		Reopen:   reopen,
		Rows:     func(t *testing.T, table string) [][]string { return rows(t, db, table) },
		Typed:    true,
		TextOnly: true,
		Refusal: &buffertest.Refusal{
			Columns: []datatype.Column{{Name: "id", Type: datatype.String, Required: true}, {Name: "sum", Type: datatype.Int64}},
			Good:    []string{"a", "1"}, Bad: []string{"a", "-1"},
			Prepare: func(t *testing.T, table string) {
				name := quote(table)
				execute(t, db, "DROP TABLE "+name+"; CREATE TABLE "+name+" (id VARCHAR NOT NULL, sum BIGINT, CHECK (sum > 0))")
			},
		},
	}
}

func TestConformance(t *testing.T) { buffertest.Target(t, harness()) }

// turns opens the database for each call and waits until no other process has it open: DuckDB lets only one.
type turns struct {
	t    *testing.T
	path string
}

func (o turns) with(ctx context.Context, call func(*duckdb.Target) error) error {
	target, err := duckdb.Open(o.path, duckdb.Options{Threads: 1})
	for errors.Is(err, duckdb.ErrLocked) && ctx.Err() == nil {
		target, err = duckdb.Open(o.path, duckdb.Options{Threads: 1})
	}
	if err != nil {
		return err
	}
	return errors.Join(call(target), target.Close())
}

func (o turns) Ensure(ctx context.Context, table driver.Table) error {
	return o.with(ctx, func(target *duckdb.Target) error { return target.Ensure(ctx, table) })
}

func (o turns) Import(ctx context.Context, f *driver.File) error {
	return o.with(ctx, func(target *duckdb.Target) error { return target.Import(ctx, f) })
}

func (o turns) CountFile(ctx context.Context, table driver.Table, id string) (n int64, err error) {
	err = o.with(ctx, func(target *duckdb.Target) error {
		n, err = target.CountFile(ctx, table, id)
		return err
	})
	return n, err
}

func TestKills(t *testing.T) {
	var o turns
	buffertest.Kills(t, buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			o = turns{t, filepath.Join(t.TempDir(), "a.duckdb")}
			return o
		},
		Rows: func(t *testing.T, table string) (all [][]string) {
			err := o.with(t.Context(), func(target *duckdb.Target) error {
				all = rows(t, target.DB(), table)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return all
		},
		Process: &buffertest.Process{
			Place: func(*testing.T) string { return o.path },
			Open:  func(t *testing.T, path string) driver.Target { return open(t, path, duckdb.Options{Threads: 1}) },
		},
	})
}

// A second process cannot open the database, and gets ErrLocked.
func TestSecondProcess(t *testing.T) {
	if path, ok := proctest.Child(); ok {
		open(t, path, duckdb.Options{})
		fmt.Println("open")
		_, _ = os.Stdin.Read(make([]byte, 1))
		t.FailNow()
	}
	if testing.Short() {
		t.Skip("it starts a process")
	}
	path := filepath.Join(t.TempDir(), "a.duckdb")
	p := proctest.Start(t, t.Name(), path)
	defer p.Kill()
	if line := p.Line(); line != "open" {
		t.Fatalf("the other process says %q", line)
	}
	if target, err := duckdb.Open(path, duckdb.Options{}); !errors.Is(err, duckdb.ErrLocked) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "end that one") {
		t.Errorf("Open beside another process = %v, %v, want ErrLocked, the path and what to do", target, err)
	}
	p.Kill()
	open(t, path, duckdb.Options{})
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.duckdb")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, filepath.Join(dir, "missing", "a"), dir, filepath.Join(dir, "a?b")} {
		if target, err := duckdb.Open(path, duckdb.Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, %v, want an error with the path", path, target, err)
		}
	}
	for _, opts := range []duckdb.Options{{MemoryLimit: -1}, {Threads: -1}} {
		if target, err := duckdb.Open(filepath.Join(dir, "none"), opts); err == nil || duckdb.Validate("none", opts) == nil {
			t.Errorf("%+v are accepted: %v", opts, target)
		}
	}
}
