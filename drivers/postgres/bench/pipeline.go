package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/pipebench"
)

// connections is the size of the pool that inserts, the number with which pgbench inserts the most rows on two cores.
const connections = 16

// database is the server of the pipeline's scenarios.
func (w ways) database(server *pgtest.Server) pipebench.Database {
	tail := tail{ways: w}
	return pipebench.Database{
		Name: "postgres",
		Reset: func(ctx context.Context) error {
			tail.seen, tail.last = 0, "(0,0)"
			return w.exec(ctx, "DROP TABLE IF EXISTS events, _forebay_imports; CHECKPOINT")
		},
		Target: func(context.Context) (driver.Target, func() error, error) {
			target, err := postgres.Open(w.url, postgres.Options{})
			if err != nil {
				return nil, nil, err
			}
			return target, target.Close, nil
		},
		Own:     w.own,
		Count:   func(context.Context) (int64, error) { return w.count() },
		Seen:    tail.count,
		CPU:     server.CPU,
		Outages: map[string]func() (func() error, error){"shutdown": server.Shutdown, "hang": server.Hang},
	}
}

// own inserts through a pool of pgx, which prepares its statement once.
func (w ways) own(ctx context.Context) (o pipebench.Own, err error) {
	if err := w.exec(ctx, "CREATE TABLE events (id uuid, received_at timestamptz, user_id bigint, body json)"); err != nil {
		return o, err
	}
	cfg, err := pgxpool.ParseConfig(w.url)
	if err != nil {
		return o, err
	}
	cfg.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return o, err
	}
	const insert = "INSERT INTO events VALUES ($1, $2, $3, $4)"
	return pipebench.Own{
		Insert: func(ctx context.Context, e pipebench.Event) error {
			_, err := pool.Exec(ctx, insert, e.ID, e.At, e.UserID, e.Body)
			return err
		},
		InsertBatch: func(ctx context.Context, events []pipebench.Event) error {
			var batch pgx.Batch
			for _, e := range events {
				batch.Queue(insert, e.ID, e.At, e.UserID, e.Body)
			}
			return pool.SendBatch(ctx, &batch).Close()
		},
		Close: func() error { pool.Close(); return nil },
	}, nil
}

// tail counts only the rows after the last row that it has counted. The table only grows, so its rows have ascending places.
type tail struct {
	ways
	conn *pgx.Conn
	seen int64
	last string
}

func (t *tail) count(ctx context.Context) (int64, error) {
	if t.conn == nil {
		conn, err := pgx.Connect(ctx, t.url)
		if err != nil {
			return 0, err
		}
		t.conn = conn
	}
	var rows int64
	err := t.conn.QueryRow(ctx, "SELECT count(*), coalesce(max(ctid), $1::tid)::text FROM events WHERE ctid > $1::tid", t.last).Scan(&rows, &t.last)
	if err != nil {
		return 0, fmt.Errorf("rows behind %s: %w", t.last, err)
	}
	t.seen += rows
	return t.seen, nil
}
