// Command bench measures the import into DuckDB compared with its own COPY from a file.
//
//	go run ./bench -json
//
// With the argument pipeline it measures the path from an event to a query, compared with inserts:
//
//	go run ./bench pipeline -json
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/internal/pipebench"
)

func main() { os.Exit(pipebench.Main(os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	return pipebench.Compare(ctx, args, stdout, database, importbench.Scenario{Name: "import/duckdb", Import: importer, Loader: loader, Goal: 0.9})
}

func importer(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, end, err := prepare(ctx, dir, in)
	return func() error { return target.Import(ctx, in.File) }, end, err
}

// loader imports into the same table, with as many threads as DuckDB likes.
func loader(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, end, err := prepare(ctx, dir, in)
	run := func() error {
		_, err := target.DB().ExecContext(ctx, "COPY events FROM '"+in.CSV+`' (FORMAT csv, AUTO_DETECT false, HEADER false, DELIM ',', QUOTE '"', ESCAPE '"')`)
		return err
	}
	return run, end, err
}

func prepare(ctx context.Context, dir string, in importbench.Input) (*duckdb.Target, func() (int64, error), error) {
	target, err := duckdb.Open(filepath.Join(dir, "rows.duckdb"), duckdb.Options{})
	if err != nil {
		return nil, nil, err
	}
	end := func() (rows int64, err error) {
		err = target.DB().QueryRow("SELECT count(*) FROM events").Scan(&rows)
		return rows, errors.Join(err, target.Close())
	}
	return target, end, target.Ensure(ctx, in.File.Table)
}
