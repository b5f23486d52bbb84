package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/program/store"
)

func sqliteTarget() targetKind {
	return targetKind{
		prefixes: []string{"sqlite:"}, form: "sqlite:FILE", summary: "a SQLite database", ages: true, local: always, limits: new(sqlite.Target),
		keys: sqliteKeys{},
		prepare: func(rest string, f targetFlags) (opener, []error) {
			var keys sqliteKeys
			problems := append(f.forFolders(), f.options.read(&keys)...)
			opts := sqlite.Options{LockTimeout: keys.LockTimeout, StallTimeout: keys.StallTimeout, KeepIDs: keys.KeepIDs, MaxWAL: int64(keys.MaxWAL), TrustTriggers: keys.TrustTriggers, Indexes: f.indexesOr(keys.Indexes)}
			var wrong []error
			opts.KeepFor, opts.KeepBy, wrong = f.retention(keys.KeepBy)
			return func() (*store.Store, error) { return openSQLite(rest, opts) }, slices.Concat(problems, wrong, f.explain(opts.Validate(), &keys, false))
		},
	}
}

// sqliteKeys are the options of a SQLite target.
type sqliteKeys struct {
	LockTimeout   time.Duration `json:"lockTimeout" doc:"how long a call waits for another writer of the file before it fails and is retried later; default: 5s"`
	StallTimeout  time.Duration `json:"stallTimeout" doc:"how long an import, which blocks other writers of the file, waits for bytes from staging; default: 10s"`
	MaxWAL        byteSize      `json:"maxWal" doc:"size of the write-ahead log at which it is emptied; default: 64MB"`
	KeepIDs       time.Duration `json:"keepIds" doc:"how long to remember the ids of imported files; must exceed your longest outage; default: 2160h; negative means forever"`
	TrustTriggers bool          `json:"trustTriggers" doc:"if true, rows for which a trigger raises an error go to the quarantine; by default, the whole file is held"`
	KeepBy        []string      `json:"keepBy" doc:"columns that determine a row's age; rows older than '-keep-for' are removed"`
	Indexes       [][]string    `json:"indexes" doc:"indexes of new tables, such as [[trace, at], [at]]; a table gets only the indexes whose columns it has"`
}

// sqliteAdvice says what to do about a file that cannot be opened.
func sqliteAdvice(path string) string {
	if folder := filepath.Dir(path); !isFolder(folder) {
		return "the folder " + folder + " must exist"
	}
	if isFolder(path) {
		return "it is a folder: name a file in it"
	}
	const magic = "SQLite format 3\x00"
	f, err := os.Open(path)
	if err != nil {
		return "this user must be able to read and write the file"
	}
	defer f.Close()
	head := make([]byte, len(magic))
	if n, _ := io.ReadFull(f, head); n > 0 && string(head) != magic {
		return "the file exists and is no SQLite database: name a different one, which is made if it is absent"
	}
	return "this user must be able to write the file and its folder"
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// openSQLite opens the target, and a separate pool for the reader.
func openSQLite(rest string, opts sqlite.Options) (*store.Store, error) {
	path, err := filepath.Abs(rest)
	if err != nil {
		return nil, err
	}
	target, err := sqlite.Open(path, opts)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, sqliteAdvice(path))
	}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "mode=ro&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	return &store.Store{
		Target: target, Tables: sqlReader{db, `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE)`},
		Hint:   fmt.Sprintf(`sqlite3 '%s' 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`, rest),
		Closer: func() error { return errors.Join(db.Close(), target.Close()) },
	}, nil
}
