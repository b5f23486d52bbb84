package main

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/pipebench"
)

// database is a file in a folder, for the pipeline's scenarios. It has no outage, because a file that this process has open cannot be taken away.
func database(dir string) (pipebench.Database, error) {
	path := filepath.Join(dir, "rows.duckdb")
	return pipebench.Database{
		Name: "duckdb",
		Reset: func(context.Context) error {
			for _, suffix := range []string{"", ".wal"} {
				if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			return nil
		},
		Target: func(context.Context) (driver.Target, func() error, error) {
			target, err := duckdb.Open(path, duckdb.Options{})
			if err != nil {
				return nil, nil, err
			}
			return target, target.Close, nil
		},
		Own: func(ctx context.Context) (pipebench.Own, error) { return own(ctx, path) },
		Count: func(ctx context.Context) (rows int64, err error) {
			db, err := sql.Open("duckdb", path) // for each query: Reset deletes the file
			if err != nil {
				return 0, err
			}
			err = db.QueryRowContext(ctx, "SELECT count(*) FROM events").Scan(&rows)
			return rows, errors.Join(err, db.Close())
		},
	}, nil
}

// own inserts through a pool of connections, which DuckDB lets commit one after the other.
func own(ctx context.Context, path string) (o pipebench.Own, err error) {
	db, err := sql.Open("duckdb", path)
	if err != nil {
		return o, err
	}
	db.SetMaxOpenConns(16)
	return pipebench.OwnSQL(ctx, db, "CREATE TABLE events (id UUID, received_at TIMESTAMP WITH TIME ZONE, user_id BIGINT, body JSON)", func(e pipebench.Event) []any {
		return []any{e.ID.String(), e.At.UTC(), e.UserID, e.Body}
	})
}
