package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/program/store"
)

func sqliteTarget() targetKind {
	return targetKind{
		prefixes: []string{"sqlite:"}, form: "sqlite:FILE", summary: "a SQLite database", limits: new(sqlite.Target),
		prepare: func(rest string, o tableFlags) (opener, []error) {
			opts := sqlite.Options{}
			return func() (*store.Store, error) { return openSQLite(rest, opts) }, append(o.forFolders(), targetProblems(opts.Validate(), false)...)
		},
	}
}

// openSQLite opens the target, and a pool of its own for the reader.
func openSQLite(rest string, opts sqlite.Options) (*store.Store, error) {
	path, err := filepath.Abs(rest)
	if err != nil {
		return nil, err
	}
	target, err := sqlite.Open(path, opts)
	if err != nil {
		return nil, fmt.Errorf("%w; its folder must exist", err)
	}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "mode=ro&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	return &store.Store{
		Target: target, Tables: sqlReader{db},
		Hint:   fmt.Sprintf(`sqlite3 '%s' 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`, rest),
		Closer: func() error { return errors.Join(db.Close(), target.Close()) },
	}, nil
}
