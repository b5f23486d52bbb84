package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/driver"
)

const (
	// insertBytes is about what one INSERT sends. Larger ones are not faster.
	insertBytes = 512 << 10
	// packetReserve bounds the bytes of a message other than the rows of a statement.
	packetReserve = 1 << 10
)

// errEnoughRows ends the search for refused rows when an error names as many as it may.
var errEnoughRows = errors.New("the error names no further rows")

// insertAll sends the rows of a file by INSERT with many rows each. In strict mode the server refuses a whole statement if it refuses a row, and
// the transaction continues. So a refused row is noted, and the others are tried, until the error has all refused rows.
func (in *intake) insertAll(ctx context.Context, tx *sql.Tx, f *driver.File) error {
	w := &inserter{tx: tx, intake: in, found: &driver.RowsError{}}
	w.begin = "INSERT INTO " + in.into + " (" + in.fields.names() + ") VALUES "
	rows := f.ReadRows(ctx)
	defer rows.Close()
	err := w.file(ctx, rows)
	switch {
	case err != nil && !errors.Is(err, errEnoughRows):
		return err
	case len(w.found.Rows) > 0:
		w.found.Complete = err == nil
		return w.found
	case w.sent != f.Rows:
		return fmt.Errorf("staging has %d rows of the file, want %d", w.sent, f.Rows)
	}
	return nil
}

// inserter inserts rows of a file.
type inserter struct {
	tx *sql.Tx
	*intake
	begin string // of each statement
	found *driver.RowsError

	statement []byte
	text      []byte  // rows, each with a comma before it
	ends      []int   // of each in text
	rows      []int64 // their numbers in the file
	sent      int64
}

func (w *inserter) file(ctx context.Context, rows *driver.FileRows) error {
	for rows.Next() {
		before := len(w.text)
		text, no := w.fields.appendValues(w.text, rows.Cells())
		if w.text = text; no != nil {
			w.text = text[:before]
			if err := w.flush(ctx); err != nil {
				return err
			}
			if err := w.refuse(no.at(rows.Row())); err != nil {
				return err
			}
			continue
		}
		w.ends, w.rows = append(w.ends, len(text)), append(w.rows, rows.Row())
		if len(text) >= insertBytes {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return w.flush(ctx)
}

// flush sends the rows that were gathered.
func (w *inserter) flush(ctx context.Context) error {
	err := w.try(ctx, 0, len(w.rows))
	w.text, w.ends, w.rows = w.text[:0], w.ends[:0], w.rows[:0]
	return err
}

// refuse notes a row.
func (w *inserter) refuse(row driver.RowError) error {
	if !w.found.Add(row) {
		return errEnoughRows
	}
	return nil
}

// try sends rows, and notes the refused rows. Rows before a refused row stay, so that later rows can conflict with them.
func (w *inserter) try(ctx context.Context, from, to int) error {
	for from < to {
		begin := 0
		if from > 0 {
			begin = w.ends[from-1]
		}
		values := w.text[begin:w.ends[to-1]]
		at := -1
		var refused *driver.RowsError
		if size := len(w.begin) + len(values) + len(w.upsert) + packetReserve; size <= w.maxPacket {
			err := w.send(ctx, values, to-from)
			if err == nil {
				return nil
			}
			e, ok := errors.AsType[*mysql.MySQLError](err)
			if !ok || !refusesRow(e) {
				return err
			}
			refused = refusedRow(e, 0)
			if n := placeOf(e); n >= 0 && n < to-from && !raised(e) {
				at = from + n
			}
		} else if to-from == 1 {
			refused = &driver.RowsError{}
			refused.Add(driver.RowError{Reason: fmt.Sprint(packetTooLarge), Message: "the row is larger than max_allowed_packet of the server"})
		}
		switch {
		case to-from == 1:
			at = from
		case at < 0:
			middle := from + (to-from)/2
			if err := w.try(ctx, from, middle); err != nil {
				return err
			}
			from = middle
			continue
		}
		if err := w.try(ctx, from, at); err != nil {
			return err
		}
		if w.found.Err == nil {
			w.found.Err = refused.Err
		}
		w.found.Unsure, w.found.Patience = w.found.Unsure || refused.Unsure, max(w.found.Patience, refused.Patience)
		row := refused.Rows[0]
		row.Row = w.rows[at]
		if err := w.refuse(row); err != nil {
			return err
		}
		from = at + 1
	}
	return nil
}

// send inserts rows. After an error of the server none of them is inserted.
func (w *inserter) send(ctx context.Context, values []byte, rows int) error {
	w.statement = append(append(append(w.statement[:0], w.begin...), values[1:]...), w.upsert...)
	result, err := w.tx.ExecContext(ctx, string(w.statement))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || w.upsert == "" && n != int64(rows) {
		return errors.Join(err, fmt.Errorf("the server has inserted %d of %d rows", n, rows))
	}
	w.sent += int64(rows)
	return nil
}
