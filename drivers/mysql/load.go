package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/driver"
)

// loadClause are the separators of loadForm. They name the character set because the server would take that of the database.
const loadClause = ` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\' LINES TERMINATED BY '\n' STARTING BY ''`

// loadSQL returns the statement that loads the lines of a reader. Bytes are sent as hexadecimal digits, because in this character set some would
// not be read as they are.
func (in *intake) loadSQL(reader string) string {
	var names, set []string
	for i, f := range in.fields {
		name := quote(f.name)
		if f.binary {
			variable := fmt.Sprintf("@%sbytes%d", reserved, i)
			set = append(set, name+" = UNHEX("+variable+")")
			name = variable
		}
		names = append(names, name)
	}
	query := "LOAD DATA LOCAL INFILE 'Reader::" + reader + "' INTO TABLE " + in.into + loadClause + " (" + strings.Join(names, ", ") + ")"
	if set != nil {
		query += " SET " + strings.Join(set, ", ")
	}
	return query
}

// loadData sends the rows of a file by LOAD DATA LOCAL, and reports whether the table has taken them as they are.
//
// With LOCAL the server turns errors about rows into warnings, in strict mode too. It stores a changed value, or leaves the row out. So one
// warning, or a missing row, makes the result worthless. The caller then rolls back to before the statement and inserts, which finds the rows.
func (in *intake) loadData(ctx context.Context, tx *sql.Tx, f *driver.File) (done bool, err error) {
	r := &rowStream{rows: f.ReadRows(ctx), fields: in.fields}
	defer r.rows.Close()
	name := fmt.Sprintf("%sload%p", reserved, r) // the client library keeps readers for the whole process, by their names
	mysql.RegisterReaderHandler(name, func() io.Reader { return r })
	defer mysql.DeregisterReaderHandler(name)
	result, err := tx.ExecContext(ctx, in.loadSQL(name))
	if r.refused {
		return false, nil
	}
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		return false, r.err // the server has got an end in its place, and knows nothing of it
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && (notAllowed(e) || refusesRow(e)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if r.err == nil {
		return false, errors.New("the server has not read all rows")
	}
	affected, err := result.RowsAffected()
	if err != nil {
		return false, err
	}
	var warnings int64
	if err := tx.QueryRowContext(ctx, "SELECT @@warning_count").Scan(&warnings); err != nil {
		return false, err
	}
	return warnings == 0 && affected == f.Rows, nil
}

// rowStream is what LOAD DATA reads, the rows of a file as lines.
type rowStream struct {
	rows    *driver.FileRows
	fields  fields
	buf     []byte // buf[next:] is unread
	next    int
	refused bool  // a row cannot be sent
	err     error // io.EOF at the end
}

// streamBlock is about the number of bytes encoded at once.
const streamBlock = 64 << 10

func (r *rowStream) Read(p []byte) (int, error) {
	if r.next == len(r.buf) {
		r.buf, r.next = r.buf[:0], 0
		for r.err == nil && len(r.buf) < streamBlock {
			r.fill()
		}
	}
	if r.next == len(r.buf) {
		return 0, r.err
	}
	n := copy(p, r.buf[r.next:])
	r.next += n
	return n, nil
}

// fill appends a row.
func (r *rowStream) fill() {
	if !r.rows.Next() {
		if r.err = r.rows.Err(); r.err == nil {
			r.err = io.EOF
		}
		return
	}
	before := len(r.buf)
	buf, no := r.fields.appendLine(r.buf, r.rows.Cells())
	if r.buf = buf; no != nil {
		r.buf, r.refused, r.err = buf[:before], true, errors.New("a row is refused")
	}
}
