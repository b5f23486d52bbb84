package main

import (
	"database/sql"
	"errors"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx of database/sql

	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/internal/program/store"
)

func postgresTarget() targetKind {
	return targetKind{
		prefixes: []string{"postgres://", "postgresql://"}, form: "postgres://USER:PASSWORD@HOST/DATABASE", summary: "a PostgreSQL database", limits: new(postgres.Target),
		prepare: func(rest string, o tableFlags) (opener, []error) {
			opts := postgres.Options{}
			return func() (*store.Store, error) { return openPostgres("postgres://"+rest, opts) },
				append(o.forFolders(), targetProblems(postgres.Validate("postgres://"+rest, opts), false)...)
		},
	}
}

// openPostgres opens the target, and a pool of its own for the reader.
func openPostgres(address string, opts postgres.Options) (*store.Store, error) {
	target, err := postgres.Open(address, opts)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		target.Close()
		return nil, errors.New("the connection string cannot be read")
	}
	return &store.Store{
		Target: target, Tables: sqlReader{db},
		Hint: `psql 'postgres://…' -c 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`,
		Closer: func() error {
			target.Close()
			return db.Close()
		},
	}, nil
}
