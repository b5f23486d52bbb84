package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // registers itself as "sqlite"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/retention"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

// Options are the choices of [Open]. A zero field means its default.
type Options struct {
	// LockTimeout is how long a call waits for another writer of the file before it fails. The engine repeats it. Default: 5 s.
	LockTimeout time.Duration
	// StallTimeout is how long an import waits for bytes of staging. Meanwhile no other process can write to the file. Then the import fails,
	// other processes can write, and the engine repeats it. Default: 10 s.
	StallTimeout time.Duration
	// KeepIDs is how long the id of an imported file is remembered, at least. It must be longer than the engine may repeat an
	// import, which is Tuning.Retention and the longest time for which no engine runs. Default: 90 days. Below zero means
	// forever.
	KeepIDs time.Duration
	// KeepFor, if not 0, makes Compact remove rows older than this. The engine runs Compact after imports and at least once an hour. The age is the
	// time since the first of the columns KeepBy that a row has. Rows stay up to a 24th of KeepFor longer. Default: forever.
	KeepFor time.Duration
	// KeepBy names columns of type timestamp or date. A date is over at its end. A row in which all of them are NULL stays, and so do the rows
	// of a table that has none of them.
	KeepBy []string
	// Indexes lists the columns of indexes. A table that the driver creates gets each index of whose columns it has all. Tables that exist stay as they
	// are, so create the index yourself. Each index slows imports.
	Indexes [][]string
	// TrustTriggers says that an error which a trigger of yours raises is always about the row. Then the row leaves its file for it and goes to the
	// quarantine. Default: the file is held until an operator decides, see forebay.SinkHandle.SplitFile.
	TrustTriggers bool
	// MaxWAL is the size in bytes of the write-ahead log from which on [Target.Compact] empties it. Default: 64 MiB.
	MaxWAL int64
}

// Validate returns an error if [Open] refuses the options.
func (o Options) Validate() error {
	switch {
	case o.LockTimeout < 0:
		return fmt.Errorf("sqlite: LockTimeout is %s, must not be negative", o.LockTimeout)
	case o.StallTimeout < 0:
		return fmt.Errorf("sqlite: StallTimeout is %s, must not be negative", o.StallTimeout)
	case o.MaxWAL < 0:
		return fmt.Errorf("sqlite: MaxWAL is %d, must not be negative", o.MaxWAL)
	}
	if slices.ContainsFunc(o.Indexes, func(columns []string) bool { return len(columns) == 0 }) {
		return errors.New("sqlite: Indexes has an index without a column")
	}
	if _, err := retention.New(o.KeepFor, o.KeepBy); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

// busyTimeout is how long SQLite itself waits for a lock. The driver looks at the context between two such waits.
const busyTimeout = 100 * time.Millisecond

// Target is a [driver.Target] whose tables are in one SQLite database. It is safe for concurrent use, including next to other
// processes that have the file open.
type Target struct {
	path string
	file sqlfile.File
	opts Options
	keep *retention.Rule
	// write has one connection, so that calls queue for it and their contexts are heeded.
	write, read *sql.DB
	known       knownTables  // of the connection of write, within a transaction
	cleaned     atomic.Int64 // when Compact looked for old ids, as Unix seconds
}

var (
	_ driver.Target       = (*Target)(nil)
	_ driver.Extender     = (*Target)(nil)
	_ driver.ManyImporter = (*Target)(nil)
	_ driver.Limiter      = (*Target)(nil)
	_ driver.LocalDriver  = (*Target)(nil)
	_ driver.Counter      = (*Target)(nil)
	_ driver.Uncreator    = (*Target)(nil)
	_ driver.Compactor    = (*Target)(nil)
	_ driver.Querier      = (*Target)(nil)
	_ driver.Tailer       = (*Target)(nil)
	_ driver.Voider       = (*Target)(nil)
	_ driver.SQLTarget    = (*Target)(nil)
)

// Open opens or creates the database file. Its folder must exist, on a local disk. The caller closes the Target after the engine.
func Open(path string, opts Options) (*Target, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.LockTimeout = cmp.Or(opts.LockTimeout, 5*time.Second)
	opts.StallTimeout = cmp.Or(opts.StallTimeout, 10*time.Second)
	opts.KeepIDs = cmp.Or(opts.KeepIDs, 90*24*time.Hour)
	opts.MaxWAL = cmp.Or(opts.MaxWAL, 64<<20)
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	keep, err := retention.New(opts.KeepFor, opts.KeepBy)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	_ = sqlfile.Create(path) // SQLite gives its log the permissions of the file. If this fails, SQLite says why it cannot open the file.
	t := &Target{path: path, opts: opts, keep: keep}
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-16384)",
	}
	if t.write, err = open(path, pragmas...); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if t.read, err = open(path, pragmas[0], "query_only(1)"); err != nil {
		return nil, fmt.Errorf("sqlite: %w", errors.Join(err, t.write.Close()))
	}
	err = t.transaction(context.Background(), func(context.Context, tx) error { return nil })
	if err == nil {
		t.file, err = sqlfile.Find(path)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, errors.Join(err, t.Close()))
	}
	return t, nil
}

// open returns a pool of one connection.
func open(path string, pragmas ...string) (*sql.DB, error) {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // a drive
		path = "/" + path
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// Close closes the database. Calls that run fail.
func (t *Target) Close() error { return errors.Join(t.read.Close(), t.write.Close()) }

// Limits implements [driver.Limiter]: SQLite stores NaN as NULL, and no cell above 1,000,000,000 bytes.
func (t *Target) Limits() datatype.Limits {
	return datatype.Limits{NoNaN: true, MaxCell: 1_000_000_000}
}

// Needs implements [driver.LocalDriver]. Pages go to the write-ahead log, and from there to the file.
func (t *Target) Needs(_, raw int64) (path string, bytes int64) {
	return t.path, 3*raw + 8<<20
}

// CountFile implements [driver.Counter]. It returns the rows that were imported, including rows that were deleted since.
func (t *Target) CountFile(ctx context.Context, table driver.Table, fileID string) (rows int64, err error) {
	err = t.read.QueryRowContext(ctx, `SELECT coalesce(sum(max(rows, 0)), 0) FROM _forebay_imports WHERE file_id = ? AND table_id = ?
		AND EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = table_id)`, fileID, table.ID).Scan(&rows)
	return rows, wrap(classify(err), "count file %s", fileID)
}

// tx is a connection within BEGIN IMMEDIATE, so that there is no other writer.
type tx struct{ *sql.Conn }

// errDone ends a transaction that has nothing to commit.
var errDone = errors.New("nothing to do")

// transaction runs a call within BEGIN IMMEDIATE and commits, or rolls back if it fails. An error of the commit says nothing about
// its outcome.
func (t *Target) transaction(ctx context.Context, call func(context.Context, tx) error) error {
	conn, err := t.write.Conn(ctx)
	for deadline := time.Now().Add(t.opts.LockTimeout); ; {
		if err == nil {
			_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		}
		if !isBusy(err) || time.Now().After(deadline) {
			break
		}
		if conn == nil { // the journal mode could not be set
			conn, err = t.write.Conn(ctx)
		} else {
			err = ctx.Err()
		}
	}
	if conn == nil {
		return classify(err)
	}
	defer conn.Close()
	if err == nil {
		err = t.file.Check()
	}
	if err == nil {
		err = createOwnTables(ctx, tx{conn}) // they may have been dropped since Open
	}
	if err == nil {
		err = t.known.begin(ctx, tx{conn})
	}
	if err == nil {
		err = call(ctx, tx{conn})
	}
	if err == nil {
		if _, err = conn.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	// An error may have rolled back already. A BEGIN during which ctx ends may still begin a transaction, and a connection within a
	// transaction must not be used again.
	if _, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); rollback != nil && !noTransaction(rollback) {
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
	switch {
	case errors.Is(err, errDone):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return classify(err)
}

// SQL implements [driver.SQLTarget].
func (t *Target) SQL(table driver.Table) driver.SQLSyntax {
	return driver.SQLSyntax{
		Table: sqlfile.Quote(table.ID), Quote: sqlfile.Quote, Text: sqlfile.Literal,
		Contains: func(column, literal string) string { return "instr(lower(" + column + "), " + literal + ") > 0" },
	}
}
