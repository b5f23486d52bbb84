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
	Keys          map[string][]string `json:"keys" doc:"columns of the primary key of tables, by name, such as {orders: [id]}: a row replaces the one with its key"`
	NativeJSON    bool                `json:"nativeJson" doc:"true makes json columns of new tables in MySQL of the type JSON, which changes documents a little"`
	InsertOnly    bool                `json:"insertOnly" doc:"true sends rows by INSERT even if the server accepts LOAD DATA LOCAL"`
	MaxConns      int                 `json:"maxConns" doc:"greatest number of connections, one an import; default 8"`
	LockTimeout   time.Duration       `json:"lockTimeout" doc:"how long an import waits for a lock before it is repeated later; default 10s"`
	KeepIDs       time.Duration       `json:"keepIds" doc:"how long to remember ids of imported files; must exceed your longest outage; default 8760h, at least 720h"`
	TrustTriggers bool                `json:"trustTriggers" doc:"true sends rows for which a trigger raises an error to the quarantine; default: the file is held"`
	LazyLog       bool                `json:"lazyLog" doc:"true accepts a server with innodb_flush_log_at_trx_commit other than 1, which may lose the imports of its last second in a crash"`
	KeepBy        []string            `json:"keepBy" doc:"columns that tell the time of a row: with the flag keep-for, older rows are removed"`
	Indexes       [][]string          `json:"indexes" doc:"columns of indexes of new tables, such as [[trace, at], [at]]: a table gets each index of whose columns it has all"`
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
