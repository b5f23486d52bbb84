// Command bench measures the import into SQLite compared with .import of the program sqlite3.
//
//	go run ./bench -json
//
// With the argument pipeline it measures the path from an event to a query, compared with inserts through one connection:
//
//	go run ./bench pipeline -json
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/internal/pipebench"
)

func main() { os.Exit(pipebench.Main(os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	return pipebench.Compare(ctx, args, stdout, database, importbench.Scenario{Name: "import/sqlite", Import: importer, Loader: shell, Goal: 0.9})
}

func importer(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	path := filepath.Join(dir, "rows.db")
	target, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	return importbench.Into(ctx, in, target, func() (int64, error) { return count(path) })
}

// shell imports with the same durability into a table of the same storage classes. The table is not STRICT, because .import knows neither
// NULL nor true and false.
func shell(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	path := filepath.Join(dir, "rows.db")
	sqlite3 := func(commands ...string) error {
		out, err := exec.CommandContext(ctx, "sqlite3", append([]string{"-batch", "-bail", path}, commands...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("sqlite3: %w: %.300s", err, out)
		}
		return nil
	}
	err := sqlite3("PRAGMA journal_mode = WAL", `CREATE TABLE events (id TEXT NOT NULL, "at" TEXT NOT NULL, n INTEGER, kind TEXT, value REAL, ok INTEGER, body TEXT)`)
	run := func() error {
		return sqlite3("PRAGMA synchronous = FULL", ".mode csv", ".import "+in.CSV+" events")
	}
	return run, func() (int64, error) { return count(path) }, err
}

func count(path string) (rows int64, err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRow("SELECT count(*) FROM events").Scan(&rows)
	return rows, err
}
