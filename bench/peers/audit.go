package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/proctest"
)

// database is the destination.
type database struct {
	server pgtest.Server
	url    string
}

// open starts the server. It keeps the time of each commit, which says when a row could be read.
func (d *database) open(ctx context.Context) (err error) {
	if d.url, err = d.server.Start(); err != nil {
		return err
	}
	if err := d.exec(ctx, "ALTER SYSTEM SET track_commit_timestamp = on"); err != nil {
		return err
	}
	restore, err := d.server.Shutdown()
	if err != nil {
		return err
	}
	return restore()
}

func (d *database) close() { d.server.Close() }

func (d *database) reset(ctx context.Context) error {
	return d.exec(ctx, "SET client_min_messages = warning", "DROP TABLE IF EXISTS events, _forebay_imports", "CREATE TABLE events (id bigint, body json)", "CHECKPOINT")
}

func (d *database) exec(ctx context.Context, statements ...string) error {
	return d.with(ctx, func(conn *pgx.Conn) error {
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *database) with(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(conn)
}

// audit compares the events that were confirmed with the rows of the table.
type audit struct {
	proctest.Audit
	freshP99 float64 // milliseconds from an event to its commit
}

// settled waits until every confirmed event of a load is stored, or until the table has not grown for so long.
func (d *database) settled(ctx context.Context, l *load, long time.Duration) (a audit, err error) {
	rows, size, grown, counted := int64(-1), int64(-1), time.Now(), time.Time{}
	err = d.with(ctx, func(conn *pgx.Conn) error {
		for {
			// The size of the table is cheap. Its rows are counted when it has changed, and sometimes because a page has space for rows.
			var now, bytes int64
			if err := conn.QueryRow(ctx, "SELECT pg_relation_size('events')").Scan(&bytes); err != nil {
				return err
			}
			over := time.Since(grown) > long
			if bytes != size || over || time.Since(counted) > 2*time.Second {
				if err := conn.QueryRow(ctx, "SELECT count(*) FROM events WHERE id >= $1", l.first).Scan(&now); err != nil {
					return err
				}
				size, counted = bytes, time.Now()
				if now != rows {
					rows, grown = now, counted
				}
				if over || rows >= l.acked.Load() {
					if a, err = compare(ctx, conn, l); err != nil || over || a.Lost == 0 {
						return err
					}
				}
			}
			if err := wait(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	})
	return a, err
}

func compare(ctx context.Context, conn *pgx.Conn, l *load) (a audit, err error) {
	rows, err := conn.Query(ctx, "SELECT id, pg_xact_commit_timestamp(xmin) FROM events WHERE id >= $1", l.first)
	if err != nil {
		return a, err
	}
	stored, fresh := map[int64]int{}, []time.Duration(nil)
	var id int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		stored[id]++
		if sent, ok := l.sent(id); ok {
			fresh = append(fresh, at.Sub(sent))
		}
		return nil
	})
	a.Audit = proctest.Compare(l.acknowledged, stored)
	a.freshP99 = quantile(fresh, 99)
	return a, err
}
