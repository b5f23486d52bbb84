package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/internal/program/store"
)

func postgresTarget() targetKind {
	return targetKind{
		prefixes: []string{"postgres://", "postgresql://"}, form: "postgres://USER:PASSWORD@HOST/DATABASE", summary: "a PostgreSQL database", ages: true, limits: new(postgres.Target),
		keys: postgresKeys{},
		prepare: func(rest string, f targetFlags) (opener, []error) {
			var keys postgresKeys
			problems := append(f.forFolders(), f.options.read(&keys)...)
			opts := postgres.Options{
				Schema: keys.Schema, JSONB: keys.JSONB, Keys: keys.Keys, MaxConns: keys.MaxConns, LockTimeout: keys.LockTimeout, KeepIDs: keys.KeepIDs, TrustTriggers: keys.TrustTriggers, Indexes: f.indexesOr(keys.Indexes),
			}
			var wrong []error
			opts.KeepFor, opts.KeepBy, wrong = f.retention(keys.KeepBy)
			return func() (*store.Store, error) { return openPostgres("postgres://"+rest, opts) },
				slices.Concat(problems, wrong, f.explain(postgres.Validate("postgres://"+rest, opts), &keys, false))
		},
	}
}

// postgresKeys are the options of a PostgreSQL target.
type postgresKeys struct {
	Schema        string              `json:"schema" doc:"schema of the tables, which must exist; default public"`
	Keys          map[string][]string `json:"keys" doc:"columns of the primary key of tables, by name, such as {orders: [id]}: a row replaces the one with its key"`
	JSONB         bool                `json:"jsonb" doc:"true makes json columns of new tables jsonb, which changes documents a little"`
	MaxConns      int                 `json:"maxConns" doc:"greatest number of connections, one an import; default 8"`
	LockTimeout   time.Duration       `json:"lockTimeout" doc:"how long an import waits for a lock before it is repeated later; default 10s"`
	KeepIDs       time.Duration       `json:"keepIds" doc:"how long to remember ids of imported files; must exceed your longest outage; default 8760h, at least 720h"`
	TrustTriggers bool                `json:"trustTriggers" doc:"true sends rows for which a trigger raises an error to the quarantine; default: the file is held"`
	KeepBy        []string            `json:"keepBy" doc:"columns that tell the time of a row: with the flag keep-for, older rows are removed"`
	Indexes       [][]string          `json:"indexes" doc:"columns of indexes of new tables, such as [[trace, at], [at]]: a table gets each index of whose columns it has all"`
}

// openPostgres opens the target, and a pool of its own for the reader.
func openPostgres(address string, opts postgres.Options) (*store.Store, error) {
	target, err := postgres.Open(address, opts)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		target.Close()
		return nil, errors.New("the connection string cannot be read")
	}
	table := pgx.Identifier{"in.c-shop.orders"}
	if opts.Schema != "" {
		config.RuntimeParams["search_path"] = pgx.Identifier{opts.Schema}.Sanitize()
		table = pgx.Identifier{opts.Schema, table[0]}
	}
	db := stdlib.OpenDB(*config)
	return &store.Store{
		Target: target, Tables: sqlReader{db, `SELECT pg_catalog.to_regclass(pg_catalog.quote_ident($1)) IS NOT NULL`},
		Hint: fmt.Sprintf(`psql 'postgres://…' -c 'SELECT country, count(*), sum(total) FROM %s GROUP BY 1'`, table.Sanitize()),
		Closer: func() error {
			target.Close()
			return db.Close()
		},
	}, nil
}
