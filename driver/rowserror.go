package driver

import (
	"fmt"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/textcut"
)

// MaxRowErrors bounds the rows that one [RowsError] names.
const MaxRowErrors = 1000

// RowsError says which rows of a file a target refuses and why, for example a violated constraint. The target stores nothing of the
// file then. Return it only for a definite verdict on the values of rows, never for a time-out, a lock or a full disk. The rows may leave the
// file for it.
//
// If the target is a [Voider], the buffer imports the file without these rows and keeps them in the quarantine of the sink, unless
// HoldFiles of its buffer.QuarantineBounds is set. Otherwise it holds the file like one with a [Permanent] error. It repeats the import slowly, and
// shows the first row in buffer.FileStats, the log and the metrics until the table accepts all rows, or the operator discards the file.
type RowsError struct {
	// Rows are the refused rows in ascending order, at least one and at most [MaxRowErrors]. One alone with the number -1 says that the target
	// does not tell which row it is. A [Voider] then gets parts of the file, until it is found.
	Rows []RowError
	// Complete says that the target has tried every row, so it accepts all others.
	Complete bool
	// Unsure says that the cause may be elsewhere, for example because a trigger has raised the error, which can say anything. The file is held,
	// until the operator decides with SinkHandle.SplitFile that it is the rows.
	Unsure bool
	// Patience is how long the file is held and tried again before rows leave it, because the cause may pass by itself. For example, the row that a
	// foreign key refers to may come with another file. It counts from the first such error about the file. SinkHandle.SplitFile ends it.
	Patience time.Duration
	// Err is the error of the target, nil if there is none.
	Err error
}

// RowError is one refused row. It has no value of a cell, because a column may be secret. The row itself is in staging.
type RowError struct {
	// Row is the index of the row in the file, from 0 over all slices, see [FileRows.Row]. -1 means that the target does not tell.
	Row int64
	// Column is the name of the column, "" if the target does not tell.
	Column string
	// Reason is a word that is the same for the same cause, such as the target's code, for example SQLSTATE 22003, or one of the
	// driver. Rows are grouped by it.
	Reason string
	// Message is the target's message, "" for none. Its first 256 bytes are shown. Leave out text that repeats the value,
	// for example the DETAIL of PostgreSQL.
	Message string
}

// maxRowMessage bounds the shown part of each text of a RowError in bytes.
const maxRowMessage = 256

// Add appends a row and reports whether there is room for one more. A driver that stops for lack of room leaves Complete unset.
func (e *RowsError) Add(r RowError) (more bool) {
	e.Rows = append(e.Rows, r)
	return len(e.Rows) < MaxRowErrors
}

// Error names the first row.
func (e *RowsError) Error() string {
	if len(e.Rows) == 0 {
		return "the target refuses rows of the file"
	}
	least := "at least "
	if e.Complete {
		least = ""
	}
	return fmt.Sprintf("the target refuses %s%d of the rows: %v", least, len(e.Rows), e.Rows[0])
}

func (e *RowsError) Unwrap() error { return e.Err }

// String describes the row for people.
func (r RowError) String() string {
	r = r.Shown()
	s := fmt.Sprintf("row %d", r.Row)
	if r.Row < 0 {
		s = "a row that it does not name"
	}
	if r.Column != "" {
		s += fmt.Sprintf(", column %q", r.Column)
	}
	for _, text := range []string{r.Reason, r.Message} {
		if text != "" {
			s += ": " + text
		}
	}
	return s
}

// Shown returns r with its texts as people see them, each as UTF-8, and cut after 256 bytes.
func (r RowError) Shown() RowError {
	for _, text := range []*string{&r.Column, &r.Reason, &r.Message} {
		*text = strings.ToValidUTF8(textcut.Short(*text, maxRowMessage), "\ufffd")
	}
	return r
}
