// Command bench measures the import into PostgreSQL compared with \copy of psql. It starts its own server.
//
//	go run ./bench -json
//
// With the argument pipeline it measures the path from an event to a query, compared with inserts through a pool of pgx:
//
//	go run ./bench pipeline -json
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/internal/pipebench"
)

func main() { os.Exit(pipebench.Main(os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var server pgtest.Server
	defer server.Close()
	url, err := server.Start()
	if err != nil {
		return err
	}
	w := ways{url: url}
	return pipebench.Compare(ctx, args, stdout, func(string) (pipebench.Database, error) { return w.database(&server), nil },
		importbench.Scenario{Name: "import/postgres", Import: w.driver, Loader: w.psql, Goal: 0.9})
}

// ways import into a table that Ensure makes. A checkpoint runs before each, so that neither pays for the other's writes.
type ways struct{ url string }

func (w ways) driver(ctx context.Context, _ string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := w.prepare(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	return importbench.Into(ctx, in, target, w.count)
}

func (w ways) psql(ctx context.Context, _ string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := w.prepare(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	target.Close()
	run := func() error {
		cmd := exec.CommandContext(ctx, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", w.url, "-c", `\copy events from '`+in.CSV+`' (format csv)`)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("psql: %w: %.300s", err, out)
		}
		return nil
	}
	return run, w.count, nil
}

// prepare returns a target whose database has the table, empty.
func (w ways) prepare(ctx context.Context, in importbench.Input) (*postgres.Target, error) {
	if err := w.exec(ctx, "DROP TABLE IF EXISTS events, _forebay_imports"); err != nil {
		return nil, err
	}
	target, err := postgres.Open(w.url, postgres.Options{})
	if err != nil {
		return nil, err
	}
	if err := target.Ensure(ctx, in.File.Table); err != nil {
		target.Close()
		return nil, err
	}
	return target, w.exec(ctx, "CHECKPOINT")
}

func (w ways) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func (w ways) count() (rows int64, err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SELECT count(*) FROM events").Scan(&rows)
	return rows, err
}
