package main

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/pipebench"
)

// database is a file in a folder, for the pipeline's scenarios.
func database(dir string) (db pipebench.Database, err error) {
	path := filepath.Join(dir, "rows.db")
	asks, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return db, err
	}
	asks.SetMaxIdleConns(0) // no connection stays open, because Reset deletes the file
	ask := func(query string) func(context.Context) (int64, error) {
		return func(ctx context.Context) (rows int64, err error) {
			err = asks.QueryRowContext(ctx, query).Scan(&rows)
			return rows, err
		}
	}
	return pipebench.Database{
		Name: "sqlite",
		Reset: func(context.Context) error {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			return nil
		},
		Target: func(context.Context) (driver.Target, func() error, error) {
			target, err := sqlite.Open(path, sqlite.Options{})
			if err != nil {
				return nil, nil, err
			}
			return target, target.Close, nil
		},
		Own:   func(ctx context.Context) (pipebench.Own, error) { return own(ctx, path) },
		Close: asks.Close,
		Count: ask("SELECT count(*) FROM events"),
		Seen:  ask("SELECT coalesce(max(rowid), 0) FROM events"),
		Outages: map[string]func() (func() error, error){"lock": func() (func() error, error) {
			conn, err := asks.Conn(context.Background())
			if err != nil {
				return nil, err
			}
			if _, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return func() error {
				_, err := conn.ExecContext(context.Background(), "ROLLBACK")
				return errors.Join(err, conn.Close())
			}, nil
		}},
	}, nil
}

// own inserts through one connection, with the durability of the driver.
func own(ctx context.Context, path string) (o pipebench.Own, err error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return o, err
	}
	db.SetMaxOpenConns(1)
	return pipebench.OwnSQL(ctx, db, "CREATE TABLE events (id TEXT, received_at TEXT, user_id INTEGER, body TEXT) STRICT", func(e pipebench.Event) []any {
		return []any{e.ID.String(), e.At.UTC().Format(time.RFC3339Nano), e.UserID, e.Body}
	})
}
