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
	Schema        string              `json:"schema" doc:"schema of the tables, which must exist; default: public"`
	Keys          map[string][]string `json:"keys" doc:"primary key columns of tables, by table name, such as {orders: [id]}; a new row replaces the row with the same key"`
	JSONB         bool                `json:"jsonb" doc:"if true, 'json' columns are created with the type 'jsonb', which does not preserve documents exactly"`
	MaxConns      int                 `json:"maxConns" doc:"maximum number of connections; each import uses one; default: 8"`
	LockTimeout   time.Duration       `json:"lockTimeout" doc:"how long an import waits for a lock before it fails and is retried later; default: 10s"`
	KeepIDs       time.Duration       `json:"keepIds" doc:"how long to remember the ids of imported files; must exceed your longest outage; default: 8760h, minimum 720h"`
	TrustTriggers bool                `json:"trustTriggers" doc:"if true, rows for which a trigger raises an error go to the quarantine; by default, the whole file is held"`
	KeepBy        []string            `json:"keepBy" doc:"columns that determine a row's age; rows older than '-keep-for' are removed"`
	Indexes       [][]string          `json:"indexes" doc:"indexes of new tables, such as [[trace, at], [at]]; a table gets only the indexes whose columns it has"`
}

// openPostgres opens the target, and a separate pool for the reader.
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
