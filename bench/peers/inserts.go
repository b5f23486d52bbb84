package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// inserts is a handler that responds when its INSERT is committed.
func inserts(at place) error {
	pool, err := openPool(at, connections) // with 16 it has half the rate
	if err != nil {
		return err
	}
	return serveBodies(at, func(ctx context.Context, body []byte) error {
		r, err := newRow(body)
		if err == nil {
			_, err = pool.Exec(ctx, "INSERT INTO events VALUES ($1, $2)", r.id, r.body)
		}
		return err
	})
}

func openPool(at place, connections int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(at.Database)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = connections
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// row is an event as the table stores it.
type row struct {
	id   int64
	body string
}

func newRow(body []byte) (row, error) {
	var in struct{ ID int64 }
	err := json.Unmarshal(body, &in)
	return row{in.ID, string(body)}, err
}

// copyRows stores rows in one transaction, with COPY.
func copyRows(ctx context.Context, pool *pgxpool.Pool, rows []row) error {
	_, err := pool.CopyFrom(ctx, pgx.Identifier{"events"}, []string{"id", "body"},
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return []any{rows[i].id, rows[i].body}, nil }))
	return err
}
