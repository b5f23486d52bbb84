package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay/forebay/driver"
)

const (
	// probeRows and probeBytes bound the rows that a probe sends with one COPY.
	probeRows  = 4096
	probeBytes = 1 << 20
)

// findRefused finds the other rows of a file that the database refuses, up to [driver.MaxRowErrors], because an import ends at the first one. So
// a file with a hundred of them costs one more pass over its rows, not a hundred imports. No row stays.
//
// The rows are sent once more in a transaction that is rolled back, a few thousand at once, each batch after a savepoint. A refused batch
// is sent again without the row that the server names, or in halves if it names none, as it does for foreign keys, deferred constraints and upserts.
func (t *Target) findRefused(ctx context.Context, f *driver.File, first *driver.RowsError) error {
	found := &driver.RowsError{Err: first.Err}
	err := t.transaction(ctx, t.options.LockTimeout, t.importTimeout(f.RawBytes), func(tx pgx.Tx) error {
		in, err := t.prepare(ctx, tx, f)
		if err == nil {
			_, err = tx.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE")
		}
		if err != nil {
			return err
		}
		p := &probe{tx: tx, in: in, found: found}
		p.format, p.appendRow = in.fields.format()
		if err := p.file(ctx, f); err != nil {
			return err
		}
		return errProbed
	})
	switch {
	case err == nil: // another attempt has imported the file meanwhile
		return nil
	case len(found.Rows) > 0:
		found.Complete = errors.Is(err, errProbed)
		return found
	case errors.Is(err, errProbed) && first.Rows[0].Row < 0:
		return errors.New("postgres: the database has refused a row, and accepts every row now")
	}
	return first // the probe has failed, or the row is refused no more. The next import finds out
}

var (
	// errProbed ends the transaction of a probe that has seen all rows.
	errProbed = errors.New("all rows were tried")
	// errEnoughRows ends one that has found as many rows as an error may name.
	errEnoughRows = errors.New("the error names no further rows")
)

// probe tries rows of a file.
type probe struct {
	tx        pgx.Tx
	in        *intake
	format    string
	appendRow rowEncoder
	found     *driver.RowsError

	text []byte  // rows in the form of the database
	ends []int   // of each in text
	rows []int64 // their numbers in the file
}

func (p *probe) file(ctx context.Context, f *driver.File) error {
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
		before := len(p.text)
		text, no := p.appendRow(p.text, rows.Cells(), rows.Row())
		if no != nil {
			p.text = text[:before]
			if err := p.flush(ctx); err != nil {
				return err
			}
			if err := p.refuse(driver.RowError{Row: rows.Row(), Column: no.column, Reason: no.reason, Message: no.message}); err != nil {
				return err
			}
			continue
		}
		p.text, p.ends, p.rows = text, append(p.ends, len(text)), append(p.rows, rows.Row())
		if len(p.rows) == probeRows || len(p.text) >= probeBytes {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return p.flush(ctx)
}

// flush tries the rows that were gathered.
func (p *probe) flush(ctx context.Context) error {
	err := p.try(ctx, 0, len(p.rows))
	p.text, p.ends, p.rows = p.text[:0], p.ends[:0], p.rows[:0]
	return err
}

// refuse notes a row.
func (p *probe) refuse(row driver.RowError) error {
	if !p.found.Add(row) {
		return errEnoughRows
	}
	return nil
}

// try sends rows, and notes the refused rows. Accepted rows stay, so that later rows can conflict with them.
func (p *probe) try(ctx context.Context, from, to int) error {
	for from < to {
		err := p.send(ctx, from, to)
		if err == nil {
			return nil
		}
		pg, ok := errors.AsType[*pgconn.PgError](err)
		if !ok {
			return err
		}
		refused, at := rowError(err, p.in.relation), -1
		switch {
		case refused != nil && refused.Rows[0].Row < int64(to-from):
			at = from + int(refused.Rows[0].Row)
		case refused != nil || !refusesRow(pg) || missingPartition(pg):
			return err
		case to-from == 1:
			refused, at = refusedRow(pg, 0, pg.ColumnName), from
		default:
			middle := from + (to-from)/2
			if err := p.try(ctx, from, middle); err != nil {
				return err
			}
			from = middle
			continue
		}
		if err := p.try(ctx, from, at); err != nil { // each may still violate a check at the end of a statement
			return err
		}
		p.found.Unsure, p.found.Patience = p.found.Unsure || refused.Unsure, max(p.found.Patience, refused.Patience)
		row := refused.Rows[0]
		row.Row = p.rows[at]
		if err := p.refuse(row); err != nil {
			return err
		}
		from = at + 1
	}
	return nil
}

// send stores rows. After an error of the server none of them is stored.
func (p *probe) send(ctx context.Context, from, to int) error {
	const savepoint = reserved + "probe"
	if _, err := p.tx.Exec(ctx, "SAVEPOINT "+savepoint); err != nil {
		return err
	}
	begin := 0
	if from > 0 {
		begin = p.ends[from-1]
	}
	var data bytes.Buffer
	if p.format == "binary" {
		data.WriteString(binaryHeader)
	}
	data.Write(p.text[begin:p.ends[to-1]])
	if p.format == "binary" {
		data.WriteString(binaryTrailer)
	}
	_, err := p.tx.Conn().PgConn().CopyFrom(ctx, &data, p.in.fields.copySQL(p.in.into, p.format, p.in.limit))
	if err == nil && p.in.upsert != "" {
		if _, err = p.tx.Exec(ctx, p.in.upsert); err == nil {
			_, err = p.tx.Exec(ctx, "TRUNCATE "+p.in.into)
		}
	}
	if err == nil {
		_, err = p.tx.Exec(ctx, "RELEASE "+savepoint)
		return err
	}
	if _, e := p.tx.Exec(ctx, fmt.Sprintf("ROLLBACK TO %[1]s; RELEASE %[1]s", savepoint)); e != nil {
		return e
	}
	return err
}
