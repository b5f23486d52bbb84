package main

import (
	"slices"
	"time"

	"github.com/forebay/forebay/drivers/mysql"
	"github.com/forebay/forebay/internal/program/store"
)

func mysqlTarget() targetKind {
	const prefix = "mysql://"
	return targetKind{
		prefixes: []string{prefix}, form: "mysql://USER:PASSWORD@HOST:PORT/DATABASE", summary: "a database of MySQL or MariaDB", ages: true, limits: new(mysql.Target),
		keys: mysqlKeys{},
		prepare: func(rest string, f targetFlags) (opener, []error) {
			var keys mysqlKeys
			problems := append(f.forFolders(), f.options.read(&keys)...)
			opts := mysql.Options{
				NativeJSON: keys.NativeJSON, InsertOnly: keys.InsertOnly, Keys: keys.Keys, MaxConns: keys.MaxConns, LockTimeout: keys.LockTimeout, KeepIDs: keys.KeepIDs,
				TrustTriggers: keys.TrustTriggers, LazyLog: keys.LazyLog, Indexes: f.indexesOr(keys.Indexes),
			}
			var wrong []error
			opts.KeepFor, opts.KeepBy, wrong = f.retention(keys.KeepBy)
			return func() (*store.Store, error) { return openMySQL(prefix+rest, opts) },
				slices.Concat(problems, wrong, f.explain(mysql.Validate(prefix+rest, opts), &keys, false))
		},
	}
}

// mysqlKeys are the options of a target in MySQL or MariaDB.
type mysqlKeys struct {
	Keys          map[string][]string `json:"keys" doc:"primary key columns of tables, by table name, such as {orders: [id]}; a new row replaces the row with the same key"`
	NativeJSON    bool                `json:"nativeJson" doc:"if true, 'json' columns in MySQL are created with the type 'JSON', which does not preserve documents exactly"`
	InsertOnly    bool                `json:"insertOnly" doc:"if true, rows are sent with INSERT even if the server accepts LOAD DATA LOCAL"`
	MaxConns      int                 `json:"maxConns" doc:"maximum number of connections; each import uses one; default: 8"`
	LockTimeout   time.Duration       `json:"lockTimeout" doc:"how long an import waits for a lock before it fails and is retried later; default: 10s"`
	KeepIDs       time.Duration       `json:"keepIds" doc:"how long to remember the ids of imported files; must exceed your longest outage; default: 8760h, minimum 720h"`
	TrustTriggers bool                `json:"trustTriggers" doc:"if true, rows for which a trigger raises an error go to the quarantine; by default, the whole file is held"`
	LazyLog       bool                `json:"lazyLog" doc:"if true, Forebay accepts a server whose innodb_flush_log_at_trx_commit is not 1; if it crashes, it may lose imports from the last second"`
	KeepBy        []string            `json:"keepBy" doc:"columns that determine a row's age; rows older than '-keep-for' are removed"`
	Indexes       [][]string          `json:"indexes" doc:"indexes of new tables, such as [[trace, at], [at]]; a table gets only the indexes whose columns it has"`
}

// openMySQL opens the target, and separate connections for the reader.
func openMySQL(address string, opts mysql.Options) (*store.Store, error) {
	target, err := mysql.Open(address, opts)
	if err != nil {
		return nil, err
	}
	db, err := mysql.DB(address)
	if err != nil {
		target.Close()
		return nil, err
	}
	return &store.Store{
		Target: target, Tables: sqlReader{db, `SELECT COUNT(*) > 0 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`},
		Hint: "mysql -h HOST -u USER -p DATABASE -e 'SELECT country, count(*), sum(total) FROM `in.c-shop.orders` GROUP BY 1'",
		Closer: func() error {
			target.Close()
			return db.Close()
		},
	}, nil
}
