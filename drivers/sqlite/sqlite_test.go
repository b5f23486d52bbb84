package sqlite_test

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
)

func open(t testing.TB, path string, opts sqlite.Options) *sqlite.Target {
	t.Helper()
	target, err := sqlite.Open(path, opts)
	return drivertest.Opened(t, target, err)
}

// tables lets suites read and change the tables of a target.
func tables(t testing.TB, path string, target *sqlite.Target) drivertest.Tables {
	return drivertest.Tables{
		Target: target,
		Rows:   func(table string) [][]string { return rows(t, path, table) },
		Exec:   func(statement string) { execute(t, path, statement) },
	}
}

// database opens the file as any other program would.
func database(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// execute runs statements.
func execute(t testing.TB, path, statements string) {
	t.Helper()
	if _, err := database(t, path).Exec(statements); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, statements)
	}
}

// rows reads a table as canonical texts.
func rows(t testing.TB, path, table string) (all [][]string) {
	t.Helper()
	db := database(t, path)
	var text string
	var columns []datatype.Column
	err := db.QueryRow(`SELECT columns FROM _forebay_tables WHERE id = ?`, table).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &columns)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, cells := range drivertest.Cells(t, db, `SELECT * FROM "`+strings.ReplaceAll(table, `"`, `""`)+`" ORDER BY rowid`) {
		row := make([]string, len(columns))
		for i, c := range cells {
			row[i] = canonical(columns[i].Type, c)
		}
		all = append(all, row)
	}
	return all
}

func canonical(typ datatype.Type, value any) string {
	switch v := value.(type) {
	case nil:
		return buffertest.Null
	case float64:
		return string(datatype.AppendFloat64(nil, v))
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case int64:
		if typ == datatype.Bool {
			return map[int64]string{0: "false", 1: "true"}[v]
		}
	}
	return fmt.Sprint(value)
}

// harness returns the harness for the suites. Each database has its own folder.
func harness() buffertest.TargetHarness {
	var path string
	reopen := func(t *testing.T) driver.Target { return open(t, path, sqlite.Options{}) }
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			path = filepath.Join(t.TempDir(), "odd#%41.db")
			return reopen(t)
		},
		Reopen: reopen,
		Rows:   func(t *testing.T, table string) [][]string { return rows(t, path, table) },
		Typed:  true,
		Refusal: &buffertest.Refusal{
			Columns: []datatype.Column{{Name: "id", Type: datatype.String, Required: true}, {Name: "sum", Type: datatype.Int64}},
			Good:    []string{"a", "1"}, Bad: []string{"a", "-4711"},
			Prepare: func(t *testing.T, table string) {
				execute(t, path, `CREATE TRIGGER positive BEFORE INSERT ON "`+table+`" WHEN NEW.sum < 0 BEGIN SELECT RAISE(ABORT, 'too small: ' || NEW.sum); END`)
			},
		},
		Process: &buffertest.Process{
			Place: func(*testing.T) string { return path },
			Open:  func(t *testing.T, place string) driver.Target { return open(t, place, sqlite.Options{}) },
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	buffertest.Target(t, harness())
}

func TestKills(t *testing.T) {
	t.Parallel()
	buffertest.Kills(t, harness())
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, filepath.Join(dir, "missing", "a.db"), dir} {
		if target, err := sqlite.Open(path, sqlite.Options{}); err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, %v, want a permanent error with the path", path, target, err)
		}
	}
	for _, opts := range []sqlite.Options{{LockTimeout: -1}, {StallTimeout: -1}, {MaxWAL: -1}} {
		if target, err := sqlite.Open(filepath.Join(dir, "none.db"), opts); err == nil {
			t.Errorf("%+v are accepted: %v", opts, target)
		}
	}
}

// A checkpoint may be made in the folder of the file.
func TestCheckpointBesideTheFile(t *testing.T) {
	folder := t.TempDir()
	target := open(t, filepath.Join(folder, "events.db"), sqlite.Options{})
	e, err := forebay.Open(filepath.Join(folder, "data"), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Checkpoint(t.Context(), filepath.Join(folder, "backup")); err != nil {
		t.Error(err)
	}
}
