package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/driver"
)

// errPrepare ends an attempt that needs a change of the schema first, which is a separate transaction.
var errPrepare = errors.New("the table must be created or extended first")

// Import implements [driver.Target].
func (t *Target) Import(ctx context.Context, f *driver.File) error {
	if err := t.check(f.Table); err != nil {
		return err
	}
	// A user may drop a column or the table after each Ensure, so the attempts are bounded.
	for attempt := 0; ; attempt++ {
		err := t.transaction(ctx, t.options.LockTimeout, t.importTimeout(f.RawBytes), func(tx pgx.Tx) error { return t.importOnce(ctx, tx, f) })
		if refused, ok := errors.AsType[*driver.RowsError](err); ok && f.Rows > 1 {
			err = t.findRefused(ctx, f, refused)
		}
		if refused, ok := errors.AsType[*driver.RowsError](err); ok && t.options.TrustTriggers {
			refused.Unsure = false
		}
		if !errors.Is(err, errPrepare) || attempt == 3 {
			return err
		}
		if err := t.Ensure(ctx, f.Table); err != nil {
			return err
		}
	}
}

// importTimeout is how long one statement of an import may take. It is leastStatement and a second for each 256 KiB. A COPY whose client hangs
// takes longer, see endHung.
func (t *Target) importTimeout(bytes int64) time.Duration {
	return t.leastStatement + time.Duration(bytes>>18)*time.Second
}

func (t *Target) importOnce(ctx context.Context, tx pgx.Tx, f *driver.File) error {
	in, err := t.prepare(ctx, tx, f)
	if err != nil {
		return err
	}
	return in.fill(ctx, tx, f)
}

// fill stores the rows of a file.
func (in *intake) fill(ctx context.Context, tx pgx.Tx, f *driver.File) error {
	if err := in.fields.copy(ctx, tx, f, in.into, in.relation, in.limit); err != nil || in.upsert == "" {
		return err
	}
	_, err := tx.Exec(ctx, in.upsert)
	return ofRows(err)
}

// intake is how the rows of a file come into their table.
type intake struct {
	fields fields
	// into is the table that a COPY fills, relation its name in errors. limit bounds a statement.
	into, relation string
	limit          time.Duration
	// upsert brings the rows from there into the table. Empty means that it is the table.
	upsert string
}

// prepare records the id of the file and finds how its rows are stored. The error is errImported if they are.
func (t *Target) prepare(ctx context.Context, tx pgx.Tx, f *driver.File) (*intake, error) {
	// The id comes first. While an older attempt is open, this waits for its end.
	tag, err := tx.Exec(ctx, "INSERT INTO "+t.table(imports)+" (file_id, table_name, rows) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", f.ID, f.Table.ID, f.Rows)
	if err == nil && tag.RowsAffected() == 0 {
		if rows, err := t.recorded(ctx, tx, f.ID); err != nil || rows >= 0 {
			return nil, cmp.Or(err, errImported)
		}
		return nil, driver.Permanent(fmt.Errorf("file %s: %w", f.ID, driver.ErrVoid))
	}
	if err == nil {
		// Until the commit no other session changes the types that are read next, because a binary row has no types.
		_, err = tx.Exec(ctx, "LOCK TABLE ONLY "+t.table(f.Table.ID)+" IN ROW EXCLUSIVE MODE")
	}
	if sqlState(err) == undefinedTable {
		return nil, errPrepare
	}
	if err != nil {
		return nil, err
	}
	columns, err := t.columns(ctx, tx, f.Table.ID)
	if err != nil {
		return nil, err
	}
	return t.intakeOf(ctx, tx, f, columns)
}

// intakeOf finds how the rows of a file are stored in a table that has these columns.
func (t *Target) intakeOf(ctx context.Context, tx pgx.Tx, f *driver.File, columns []column) (*intake, error) {
	counted, have, want, err := fit(f.Table, columns)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(want, have) {
		return nil, errPrepare
	}
	fields, limit := fieldsOf(f.Table, counted, have), t.importTimeout(f.RawBytes)
	key := t.options.Keys[f.Table.ID]
	if key == nil {
		return &intake{fields, t.table(f.Table.ID), f.Table.ID, limit, ""}, nil
	}
	const rows = reserved + "rows"
	// It has the types of the table, and nothing that fills or checks its columns.
	if _, err := tx.Exec(ctx, fmt.Sprintf("CREATE TEMP TABLE %s ON COMMIT DROP AS SELECT %s, 0::bigint AS %s FROM %s WITH NO DATA",
		rows, fields.names(), ordinal, t.table(f.Table.ID))); err != nil {
		return nil, err
	}
	return &intake{fields.ordered(), "pg_temp." + rows, rows, limit, t.upsert(f.Table.ID, "pg_temp."+rows, key, fields)}, nil
}

// void stands in the place of the number of rows of a file that is ruled out.
const void = -1

// recorded returns the recorded number of rows of a committed file.
func (t *Target) recorded(ctx context.Context, tx pgx.Tx, fileID string) (rows int64, err error) {
	err = tx.QueryRow(ctx, "SELECT rows FROM "+t.table(imports)+" WHERE file_id = $1", fileID).Scan(&rows)
	return rows, err
}

// Void implements [driver.Voider]. Like Import it waits for an open transaction that has the id.
func (t *Target) Void(ctx context.Context, table driver.Table, fileID string) (imported bool, err error) {
	if err := t.check(table); err != nil {
		return false, err
	}
	void := func() error {
		return t.transaction(ctx, t.options.LockTimeout, time.Minute, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, "INSERT INTO "+t.table(imports)+" (file_id, table_name, rows) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", fileID, table.ID, int64(void))
			if err == nil && tag.RowsAffected() == 0 {
				var rows int64
				rows, err = t.recorded(ctx, tx, fileID)
				imported = err == nil && rows >= 0
			}
			return err
		})
	}
	if err = void(); sqlState(err) == undefinedTable { // the table of the imports was dropped
		if err = t.Ensure(ctx, table); err == nil {
			err = void()
		}
	}
	return imported, err
}

// upsert returns the statement that brings the copied rows into the table, of equal keys the last row.
func (t *Target) upsert(id, from string, key []string, fields fields) string {
	keys := quoteAll(key)
	var set []string
	for _, f := range fields {
		if !f.key {
			set = append(set, quote(f.name)+" = EXCLUDED."+quote(f.name))
		}
	}
	action := "NOTHING"
	if set != nil {
		action = "UPDATE SET " + strings.Join(set, ", ")
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT DISTINCT ON (%s) %s FROM %s ORDER BY %s, %s DESC ON CONFLICT (%s) DO %s",
		t.table(id), fields.names(), keys, fields.names(), from, keys, ordinal, keys, action)
}

// errImported ends a transaction of a file that is imported already.
var errImported = errors.New("imported already")

// transaction runs do in a transaction with its own time-outs, and commits it. Settings of the session stay as they are, because a
// pooler may give it to others.
func (t *Target) transaction(ctx context.Context, lock, statement time.Duration, do func(pgx.Tx) error) error {
	// Each statement must see rows committed while the previous statement waited for a lock, whatever the database's default is.
	tx, err := t.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return classify(err)
	}
	if err = t.set(ctx, tx, lock, statement); err == nil {
		err = do(tx)
	}
	if err == nil {
		// An error here says nothing about the outcome. The next attempt finds the id, or imports.
		return classify(ofRows(tx.Commit(ctx)))
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = tx.Rollback(end) // a connection that cannot roll back is closed
	switch {
	case errors.Is(err, errImported):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case sqlState(err) == lockNotAvailable:
		t.endHung(ctx)
	}
	return classify(err)
}

// endHung ends connections of this user that wait in a COPY for a client that hangs, such as a paused process, whose kernel responds to keepalives.
// The server heeds the time-out of a statement in a COPY only when the client sends again, so the locks would stay until then. A COPY
// that is over its time would fail with its next byte, so nothing is lost.
func (t *Target) endHung(ctx context.Context) {
	// An error has no consequence. The next attempt that gets no lock tries again.
	_, _ = t.pool.Exec(ctx, `SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
		WHERE datname = current_database() AND usename = session_user AND state = 'active' AND wait_event = 'ClientRead'
		AND clock_timestamp() - query_start > make_interval(secs => substring(query FROM '`+limitPattern+`')::int)`)
}

// set sets the parameters of a transaction. The server ends a transaction if keepalives show that the client is gone, or when the client is silent
// for a minute between two statements. A database that does not wait for its log would lose rows that Import reports as durable.
func (t *Target) set(ctx context.Context, tx pgx.Tx, lock, statement time.Duration) error {
	_, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
		set_config('idle_in_transaction_session_timeout', '60s', true),
		set_config('tcp_keepalives_idle', '30', true), set_config('tcp_keepalives_interval', '10', true), set_config('tcp_keepalives_count', '3', true),
		set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END, true)`,
		milliseconds(lock), milliseconds(statement))
	return err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

// CountFile implements [driver.Counter]. It returns the rows that the import has written. Rows that were deleted since count too.
func (t *Target) CountFile(ctx context.Context, table driver.Table, fileID string) (rows int64, err error) {
	err = t.pool.QueryRow(ctx, "SELECT rows FROM "+t.table(imports)+" WHERE file_id = $1 AND table_name = $2", fileID, table.ID).Scan(&rows)
	if errors.Is(err, pgx.ErrNoRows) || sqlState(err) == undefinedTable {
		return 0, nil
	}
	return max(0, rows), classify(err)
}
