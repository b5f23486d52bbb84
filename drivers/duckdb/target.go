package duckdb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	duckdbgo "github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/retention"
	"github.com/forebay/forebay/driverkit/sqlfile"
)

// Options are the choices of [Open]. A zero field means its default.
type Options struct {
	// MemoryLimit bounds the memory of DuckDB in bytes, for imports and queries together. Default: DuckDB's, 80 % of the machine's.
	MemoryLimit int64
	// Threads is how many threads DuckDB uses for imports and queries. Default: DuckDB's, one for each core.
	Threads int
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
	// Shared opens the file for each call and closes it after the last one, so that several processes can use it in turn. The Target is then
	// [driver.Exclusive], so the engines of all processes need Leases, as the nodes of a cluster have, and must give the same path. A call
	// while another process has the file open fails, and the engine repeats it. Default: the file is open until Close, and no other process can
	// open it.
	Shared bool
}

// Target is a [driver.Target] whose tables are in one DuckDB database, in its schema main. It is safe for concurrent use.
type Target struct {
	path    string
	opts    Options
	keepIDs time.Duration
	keep    *retention.Rule
	place   *place
	leave   sync.Once    // guards the call of place.leave
	cleaned atomic.Int64 // when Compact looked for old ids, as Unix seconds

	mu      sync.Mutex // guards closed and users, and what users use while there are none
	closed  bool
	running sync.WaitGroup // users. There are no new users once closed is set
	users   int

	// What users use.
	file      sqlfile.File
	raw       mapping.Database
	connector *duckdbgo.Connector
	db        *sql.DB
	life      context.Context // of the open database. It ends with the error after which the database must be opened again. Nil if the file is not open
	fail      context.CancelCauseFunc
	writes    sync.Mutex // of commits and checkpoints
}

var (
	_ driver.Target      = (*Target)(nil)
	_ driver.Extender    = (*Target)(nil)
	_ driver.Limiter     = (*Target)(nil)
	_ driver.LocalDriver = (*Target)(nil)
	_ driver.Counter     = (*Target)(nil)
	_ driver.Uncreator   = (*Target)(nil)
	_ driver.Compactor   = (*Target)(nil)
	_ driver.Querier     = (*Target)(nil)
	_ driver.Tailer      = (*Target)(nil)
	_ driver.Exclusive   = (*Target)(nil)
	_ driver.Voider      = (*Target)(nil)
	_ driver.SQLTarget   = (*Target)(nil)
)

// Open opens or creates the database file. Its folder must exist, on a local disk. While another process has it open, the error
// matches [ErrLocked]. All Targets of a process on one file share the open database, however their paths are spelled. The caller closes
// the Target after the engines.
func Open(path string, opts Options) (*Target, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("duckdb: %w", err)
	}
	if err := Validate(path, opts); err != nil {
		return nil, err
	}
	keep, err := retention.New(opts.KeepFor, opts.KeepBy)
	if err != nil {
		return nil, fmt.Errorf("duckdb: %w", err)
	}
	t := &Target{path: path, opts: opts, keepIDs: cmp.Or(opts.KeepIDs, 90*24*time.Hour), keep: keep}
	t.place = findPlace(path, t)
	if opts.Shared {
		return t, nil
	}
	if err := t.openFile(); err != nil {
		t.place.leave(t)
		return nil, err
	}
	return t, nil
}

// Validate returns an error if [Open] refuses these arguments whatever the file is. It opens nothing.
func Validate(path string, opts Options) error {
	switch {
	case strings.Contains(path, "?"):
		return fmt.Errorf("duckdb: the path %q has a question mark, after which the library reads options: choose a different one", path)
	case opts.MemoryLimit < 0:
		return fmt.Errorf("duckdb: MemoryLimit is %d, must not be negative", opts.MemoryLimit)
	case opts.Threads < 0:
		return fmt.Errorf("duckdb: Threads is %d, must not be negative", opts.Threads)
	}
	if _, err := retention.New(opts.KeepFor, opts.KeepBy); err != nil {
		return fmt.Errorf("duckdb: %w", err)
	}
	return nil
}

// prepare creates the driver's tables and applies the options.
func (t *Target) prepare() error {
	ctx := context.Background()
	first := func() (*conn, error) { return t.dial(func() {}) }
	err := again(ctx, func() error {
		return t.transactionOn(ctx, first, func(ctx context.Context, c *conn) error {
			if err := checkFresh(ctx, c); err != nil {
				return err
			}
			return c.exec(ctx, createOwnTables)
		})
	})
	if err != nil {
		return err
	}
	return t.transactionOn(ctx, first, func(ctx context.Context, c *conn) error {
		if t.opts.MemoryLimit > 0 {
			if err := c.exec(ctx, "SET GLOBAL memory_limit = '%dB'", t.opts.MemoryLimit); err != nil {
				return err
			}
		}
		if t.opts.Threads > 0 {
			return c.exec(ctx, "SET GLOBAL threads = %d", t.opts.Threads)
		}
		return nil
	})
}

// errClosed is the error of calls after Close.
var errClosed = errors.New("the target is closed")

// begin opens the file if it is not open, and lets Close wait until the caller calls end.
func (t *Target) begin() (end func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	if err := t.ready(); err != nil {
		return nil, err
	}
	t.users++
	t.running.Add(1)
	return t.end, nil
}

func (t *Target) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	switch {
	case t.users > 0:
	case t.opts.Shared:
		_ = t.closePool()
		_ = t.closeFile() // committed rows are in the file or in its log
	case !t.closed:
		_ = t.ready() // the next call tries again
	}
	t.running.Done()
}

// Close waits for running transactions and closes the database. Later calls fail. Close also closes the result of [Target.DB], so its users
// must have ended.
func (t *Target) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
	t.mu.Lock() // another Close
	defer t.mu.Unlock()
	err := errors.Join(t.closePool(), t.closeFile())
	t.leave.Do(func() { t.place.leave(t) })
	return err
}

// closePool closes the result of [Target.DB].
func (t *Target) closePool() (err error) {
	if t.db != nil {
		err = t.db.Close()
	}
	t.db = nil
	return err
}

// DB returns the database for queries in this process, or nil with Options.Shared, see [Target.Use]. You may write to it too, but not to tables whose
// names begin with _forebay_. It belongs to the Target, so do not close it. After a failed write the Target opens the database again, and queries fail
// until all connections have ended. SetMaxIdleConns is then back at its default.
func (t *Target) DB() *sql.DB {
	if t.opts.Shared {
		return nil
	}
	return t.db
}

// Use calls a function with the database, as [Target.DB] returns it. With Options.Shared the file is open until it returns, and no other process can
// import meanwhile. While another process has the file open, the error is [ErrLocked].
func (t *Target) Use(call func(*sql.DB) error) error {
	end, err := t.begin()
	if err != nil {
		return err
	}
	defer end()
	return call(t.db)
}

// Alone implements [driver.Exclusive]. With Options.Shared one process at a time uses the file.
func (t *Target) Alone(string) string {
	if !t.opts.Shared {
		return ""
	}
	return "duckdb " + t.place.path
}

// maxCell is a quarter of what DuckDB can store in a cell.
const maxCell = 1 << 30

// Limits implements [driver.Limiter]. DuckDB stores only UTF-8.
func (t *Target) Limits() datatype.Limits { return datatype.Limits{UTF8: true, MaxCell: maxCell} }

// Needs implements [driver.LocalDriver]. Rows go to the log or the file, and a checkpoint writes the rows of the log again.
func (t *Target) Needs(_, raw int64) (path string, bytes int64) {
	return t.path, 3*raw + 32<<20
}

// CountFile implements [driver.Counter]. It returns the rows that were imported, including rows that were deleted since.
func (t *Target) CountFile(ctx context.Context, table driver.Table, fileID string) (rows int64, err error) {
	err = t.transaction(ctx, func(ctx context.Context, c *conn) error {
		found, err := c.query(ctx, `SELECT coalesce(sum(greatest(rows, 0)), 0)::BIGINT::VARCHAR FROM _forebay_imports WHERE %s AND table_id = %s AND EXISTS
			(SELECT 1 FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'main' AND table_name = table_id)`,
			hasID(fileID), literal(table.ID))
		if err == nil {
			rows, err = strconv.ParseInt(found[0][0], 10, 64)
		}
		return err
	})
	return rows, wrap(err, "count file %s", fileID)
}

// transaction runs a call in a transaction and commits, or rolls back if it fails. An error of the commit says nothing about its
// outcome. The context of the call also ends when the database must be opened again.
func (t *Target) transaction(ctx context.Context, call func(ctx context.Context, c *conn) error) error {
	return t.transactionOn(ctx, t.connect, call)
}

// transactionOn is transaction on a new connection.
func (t *Target) transactionOn(ctx context.Context, connect func() (*conn, error), call func(ctx context.Context, c *conn) error) error {
	c, err := connect()
	if err != nil {
		return err
	}
	defer c.close()
	if err := t.file.Check(); err != nil {
		return err
	}
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	if err = c.exec(during, "BEGIN TRANSACTION"); err == nil {
		err = call(during, c)
	}
	if suspect(err) {
		t.fail(err)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && during.Err() != nil && t.failure() != nil && !suspect(err):
		return t.failure()
	case err != nil:
		return classify(err)
	}
	// A commit is not interrupted, because its outcome would be unknown.
	if err := t.write(c, "COMMIT"); err != nil {
		return &lateError{err}
	}
	t.place.restrictLog()
	return nil
}

// write runs a statement that writes to the log or the file. One such statement runs at a time. After a failed statement no other one runs, see
// [Target.failure].
func (t *Target) write(c *conn, statement string) error {
	t.writes.Lock()
	defer t.writes.Unlock()
	if err := t.failure(); err != nil {
		return err
	}
	err := c.exec(context.Background(), "%s", statement)
	if err != nil && (statement == "COMMIT" || suspect(err)) {
		t.fail(err)
	}
	return err
}

// Attempts of a call that other transactions conflict with. A commit that fails may also mean a full disk, so it is repeated less.
const (
	maxAttempts = 20
	maxCommits  = 3
)

// again repeats a call while other transactions conflict with it.
func again(ctx context.Context, call func() error) (err error) {
	commits := 0
	for range maxAttempts {
		err = call()
		if errors.As(err, new(*lateError)) {
			commits++
		}
		if !conflicts(err) || commits == maxCommits || ctx.Err() != nil {
			break
		}
	}
	return err
}

// SQL implements [driver.SQLTarget].
func (t *Target) SQL(table driver.Table) driver.SQLSyntax {
	return driver.SQLSyntax{
		Table: sqlfile.Quote(table.ID), Quote: sqlfile.Quote, Text: sqlfile.Literal,
		Contains: func(column, literal string) string {
			return "contains(lower(CAST(" + column + " AS VARCHAR)), " + literal + ")"
		},
	}
}
