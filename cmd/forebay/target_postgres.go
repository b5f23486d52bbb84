package main

import (
	"database/sql"
	"errors"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx of database/sql

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/internal/program/store"
)

func postgresTarget() targetKind {
	return targetKind{
		prefixes: []string{"postgres://", "postgresql://"}, form: "postgres://USER:PASSWORD@HOST/DATABASE", summary: "a PostgreSQL database", limits: new(postgres.Target),
		open: func(rest string, _ dir.TablesOptions) (*store.Store, error) {
			target, err := postgres.Open("postgres://"+rest, postgres.Options{})
			if err != nil {
				return nil, err
			}
			db, err := sql.Open("pgx", "postgres://"+rest)
			if err != nil {
				target.Close()
				return nil, errors.New("-target: the connection string cannot be read")
			}
			return &store.Store{
				Target: target, Tables: sqlReader{db},
				Hint: `psql 'postgres://…' -c 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`,
				Closer: func() error {
					target.Close()
					return db.Close()
				},
			}, nil
		},
	}
}
