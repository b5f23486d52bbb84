package duckdb

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	duckdbgo "github.com/duckdb/duckdb-go/v2"
	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/driverkit/sqlfile"
)

// An open database of DuckDB 1.4 cannot be trusted after a commit that failed. Its index keeps keys that are not stored, and the next text that is
// appended to a column gets the texts of the rows that were rolled back. A checkpoint would write both to the file. So the Target ends the
// life of the database after such an error. Running transactions end with a [*reopenError], and no commit follows. When the last call has
// ended, the Target closes the file without a checkpoint and opens it again. DuckDB then reads the stored rows.

// reopenError is the error of calls that used a database which the Target is about to open again. A retry helps.
type reopenError struct{ cause string }

func (e *reopenError) Error() string {
	return "the database is closed and opened again after an error, try again: " + e.cause
}

// failure returns the error that has ended the life of the database. It returns nil if the database is usable.
func (t *Target) failure() error {
	if t.life.Err() == nil {
		return nil
	}
	return &reopenError{context.Cause(t.life).Error()}
}

// suspect reports whether the open database may differ from the file after the error of a statement. Errors that DuckDB gives for the statement
// or its values do not change the database.
func suspect(err error) bool {
	if !errors.As(err, new(*sqlError)) {
		return false // of the file that is imported
	}
	switch kindOf(err) {
	case mapping.ErrorTypeCatalog, mapping.ErrorTypeBinder, mapping.ErrorTypeParser, mapping.ErrorTypeSyntax, mapping.ErrorTypePermission,
		mapping.ErrorTypeDependency, mapping.ErrorTypeNotImplemented, mapping.ErrorTypeConstraint, mapping.ErrorTypeInvalidInput,
		mapping.ErrorTypeConversion, mapping.ErrorTypeMismatchType, mapping.ErrorTypeMissingExtension, mapping.ErrorTypeOutOfRange,
		mapping.ErrorTypeTransaction, mapping.ErrorTypeInterrupt:
		return false
	}
	return true
}

// ready opens the file if it is not open or if its database must no longer be used. Called with mu held.
func (t *Target) ready() error {
	switch {
	case t.life == nil:
		return t.openFile()
	case t.life.Err() == nil:
		return nil
	case t.users > 0:
		return t.failure()
	}
	cause := t.failure()
	_ = t.closeFile() // it has failed before
	if !t.release(cause) {
		return cause
	}
	return t.openFile()
}

// release closes the file of the other Targets, which share the instance of DuckDB. It reports false if calls of these Targets must end first. The
// next call of such a Target opens the file. Called with mu held.
func (t *Target) release(cause error) bool {
	all := true
	for _, o := range t.place.others(t) {
		if !o.mu.TryLock() {
			all = false
			continue
		}
		if o.life != nil {
			o.fail(cause)
			if o.users == 0 {
				_ = o.closeFile()
			} else {
				all = false
			}
		}
		o.mu.Unlock()
	}
	return all
}

// abandoned is the name of a database in memory that marks an instance of DuckDB which must not be used again.
const abandoned = "_forebay_abandoned"

// abandon lets the database close without a checkpoint, and marks it. If these statements fail, DuckDB has marked the database as invalid itself.
// DuckDB then makes no checkpoint and refuses all statements.
func (t *Target) abandon() {
	c := &conn{end: func() {}}
	if mapping.Connect(t.raw, &c.raw) == mapping.StateError {
		return
	}
	defer c.close()
	ctx := context.Background()
	_ = c.exec(ctx, "PRAGMA disable_checkpoint_on_shutdown")
	_ = c.exec(ctx, "ATTACH IF NOT EXISTS ':memory:' AS %s", abandoned)
}

// checkFresh fails if a connection outside of the Target keeps an abandoned instance open.
func checkFresh(ctx context.Context, c *conn) error {
	found, err := c.query(ctx, "SELECT database_name FROM duckdb_databases() WHERE database_name = %s", literal(abandoned))
	if err == nil && len(found) > 0 {
		err = errors.New("the database must be opened again after an error, and a connection of the program still uses it: end its query")
	}
	return err
}

// pool gives connections of the database that is open now to the result of [Target.DB], which outlives it.
type pool struct{ t *Target }

func (p pool) Driver() sqldriver.Driver { return duckdbgo.Driver{} }

func (p pool) Connect(ctx context.Context) (sqldriver.Conn, error) {
	t := p.t
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.life == nil:
		return nil, errors.New("duckdb: the database is not open")
	case t.life.Err() != nil:
		return nil, fmt.Errorf("duckdb: %w", t.failure())
	}
	return t.connector.Connect(ctx)
}

// idleConns is the number of idle connections that database/sql keeps by default.
const idleConns = 2

// openFile opens the database. No other call uses it meanwhile.
func (t *Target) openFile() (err error) {
	if t.raw, err = t.place.enter(); err != nil {
		return fmt.Errorf("duckdb: open %s: %w", t.path, err)
	}
	t.file = t.place.opened()
	t.life, t.fail = context.WithCancelCause(context.Background())
	if t.connector, err = duckdbgo.NewConnector(t.place.path, nil); err == nil {
		err = t.prepare()
	}
	if err != nil {
		return fmt.Errorf("duckdb: open %s: %w", t.path, errors.Join(err, t.closeFile()))
	}
	if t.db == nil {
		t.db = sql.OpenDB(pool{t})
	}
	t.db.SetMaxIdleConns(idleConns)
	return nil
}

// closeFile closes the database, if it is open. No other call uses it meanwhile.
func (t *Target) closeFile() (err error) {
	if t.life == nil {
		return nil
	}
	if t.life.Err() != nil {
		t.abandon()
	}
	if t.db != nil {
		t.db.SetMaxIdleConns(0) // closes the idle connections
	}
	if t.connector != nil {
		err = t.connector.Close()
	}
	mapping.Close(&t.raw)
	t.place.exit()
	t.fail(errClosed)
	t.life, t.fail, t.connector, t.file = nil, nil, nil, sqlfile.File{}
	return err
}
