package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/celltype"
)

// field is a cell of the rows of a file, and the column that takes it.
type field struct {
	column
	cell             int
	typ              datatype.Type // of the cell
	precision, scale int           // of a decimal cell
}

type fields []field

// rowEncoder appends row number n of the file, or says why it cannot be sent.
type rowEncoder func(dst []byte, cells [][]byte, n int64) ([]byte, *refusal)

// ordinal is the column with the number of the row, which orders the rows of an upsert, because a table itself has no order.
const ordinal = reserved + "row"

// ordered adds the ordinal.
func (s fields) ordered() fields {
	return append(slices.Clip(s), field{column: column{name: ordinal, kind: "b"}, cell: -1})
}

// fieldsOf finds the cell of each column. A column without one is not named in the COPY, so the database fills it, or it is NULL.
func fieldsOf(t driver.Table, columns []column, have []datatype.Column) fields {
	var all fields
	for i, cell := range t.Places(have) {
		if cell >= 0 {
			f := field{column: columns[i], cell: cell, typ: t.Columns[cell].Type}
			f.precision, f.scale, _ = f.typ.DecimalOf()
			all = append(all, f)
		}
	}
	return all
}

// names returns the columns as SQL.
func (s fields) names() string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.name
	}
	return quoteAll(names)
}

// format returns how rows are written. It is binary, which the server need not parse, unless a column has a type whose binary form is not
// the encoder's.
func (s fields) format() (sql string, appendRow rowEncoder) {
	for _, f := range s {
		if !f.binary() {
			return "csv", s.appendCSV
		}
	}
	return "binary", s.appendBinary
}

// A COPY begins with its time-out, for endHung. limitPattern finds it.
const (
	limitComment = "/* forebay: at most %d s */ "
	limitPattern = `^/\* forebay: at most ([0-9]+) s \*/`
)

// copy sends the rows of a file to a relation of the transaction, whose statements may take limit.
func (s fields) copy(ctx context.Context, tx pgx.Tx, f *driver.File, into, relation string, limit time.Duration) error {
	reading, cancel := context.WithCancel(ctx)
	format, appendRow := s.format()
	r := &rowStream{rows: f.ReadRows(reading), appendRow: appendRow}
	if format == "binary" {
		r.buf, r.trailer = append(r.buf, binaryHeader...), binaryTrailer
	}
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, r, s.copySQL(into, format, limit))
	cancel()
	switch read := r.close(); {
	case read != nil && ctx.Err() == nil && !errors.Is(read, context.Canceled):
		return read // the server knows only that we gave up
	case err == nil && tag.RowsAffected() != f.Rows:
		return driver.Permanent(fmt.Errorf("the table takes %d of the %d rows: a trigger leaves out the others without an error", tag.RowsAffected(), f.Rows))
	case err == nil:
		return nil
	}
	if refused := rowError(err, relation); refused != nil {
		return refused
	}
	return ofRows(err)
}

// The header and the trailer around the rows of a binary COPY.
const (
	binaryHeader  = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	binaryTrailer = "\xff\xff"
)

func (s fields) copySQL(into, format string, limit time.Duration) string {
	return fmt.Sprintf(limitComment+"COPY %s (%s) FROM STDIN (FORMAT %s)", int64(limit.Seconds()), into, s.names(), format)
}

// rowStream is the input of a COPY, the rows of a file in the form of the database.
type rowStream struct {
	mu        sync.Mutex // COPY may return while its goroutine still reads
	rows      *driver.FileRows
	appendRow rowEncoder
	buf       []byte // buf[next:] is unread
	next      int
	trailer   string
	err       error // io.EOF after the trailer
}

// streamBlock is about what one Read makes, a message of pgconn.
const streamBlock = 60 << 10

func (r *rowStream) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.buf) {
		r.buf, r.next = r.buf[:0], 0
	}
	for r.err == nil && len(r.buf) < streamBlock {
		r.fill()
	}
	if r.next == len(r.buf) {
		return 0, r.err
	}
	n := copy(p, r.buf[r.next:])
	r.next += n
	return n, nil
}

// fill appends a row, or the trailer.
func (r *rowStream) fill() {
	if !r.rows.Next() {
		if r.err = r.rows.Err(); r.err == nil {
			r.buf, r.err = append(r.buf, r.trailer...), io.EOF
		}
		return
	}
	buf, no := r.appendRow(r.buf, r.rows.Cells(), r.rows.Row())
	r.buf = buf
	if no != nil {
		refused := &driver.RowsError{}
		refused.Add(driver.RowError{Row: r.rows.Row(), Column: no.column, Reason: no.reason, Message: no.message})
		r.err = refused
	}
}

// close ends the stream and returns why it ended early, if the COPY did not end it.
func (r *rowStream) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.err
	_ = r.rows.Close()
	r.err = errors.New("the copy has ended")
	r.buf, r.next = nil, 0
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// refusal says why a row cannot be sent.
type refusal struct {
	column, reason, message string
}

// malformed is the reason for a cell that is not a text of its type. The row was damaged, or comes from another mapping.
const malformed = string(celltype.Malformed)

func (f *field) refuse() *refusal {
	return &refusal{column: f.name, reason: malformed, message: fmt.Sprintf("the cell is not a canonical text of type %s", f.typ)}
}

// check refuses what PostgreSQL would change. It cuts spaces at the end that do not fit into varchar(n).
func (f *field) check(cell []byte) *refusal {
	if f.oid == pgtype.VarcharOID && f.typmod >= 0 && len(cell) > int(f.typmod-4) && utf8.RuneCount(cell) > int(f.typmod-4) {
		return &refusal{column: f.name, reason: "22001", message: "the text is longer than the column allows"}
	}
	return nil
}
