package shadow

import (
	"time"

	"github.com/forebay/forebay/buffer"
)

// End says why a shadow has ended.
type End string

const (
	// Runs means that the shadow has not ended.
	Runs End = ""
	// Time: Options.For has passed.
	Time End = "time"
	// Records: Options.Records were compared.
	Records End = "records"
	// Closed: [Shadow.Close] was called, or the engine was closed.
	Closed End = "closed"
	// Redefined means that the sink got other columns, or it was disabled or removed.
	Redefined End = "redefined"
	// Failed means that a mapping panicked. Report.Failure is the value of the panic.
	Failed End = "failed"
)

// Report is the result of a shadow. The caller owns it.
//
// Show it only to people who may see records, because its examples contain values of cells. Values of columns that are secret in one of the two
// mappings are shown as ***.
type Report struct {
	// Source and Sink are ids.
	Source, Sink string
	// Began is when the shadow began. Ended is when it took its last record, and zero while it runs.
	Began, Ended time.Time
	// End says why it has ended.
	End End
	// Failure is the panic of the end Failed.
	Failure string

	// Seen counts the records that the sink has mapped meanwhile. Each of them is in one of the other counters. Unsampled records were not
	// drawn. Dropped records were not compared, because too many waited or the shadow ended. TooLarge records are larger than
	// Options.MaxBytes. Unreadable records are structured data without a JSON form. Waiting records are not compared yet.
	Seen, Unsampled, Dropped, TooLarge, Unreadable, Waiting, Compared int64

	// Equal and Different count the records that both mappings accept. The cells of the columns that both have are all equal, or some
	// differ. OnlyCurrent and OnlyChanged count the records that one mapping accepts, and Neither the records that both reject. The sum is Compared.
	Equal, Different, OnlyCurrent, OnlyChanged, Neither int64
	// Columns are the columns of the changed mapping in its order, followed by the columns that it lacks.
	Columns []Column
	// Errors are the rejections by one mapping alone, and the rejections that differ in column or reason, by number of records. At most
	// 50 kinds are listed. OtherErrors counts the records of other kinds.
	Errors      []Rejection
	OtherErrors int64
	// CurrentTime and ChangedTime are the times that the two mappings take for the compared records. Each parses the body itself. They are
	// measured with one record in 16, because the others are mapped in part.
	CurrentTime, ChangedTime time.Duration
	// Problems are the problems of the changed table that are known without asking the target.
	Problems []buffer.TableProblem
}

// Column is one column of a [Report]. Columns of the two mappings belong together if their names are equal without case.
type Column struct {
	// Name is the name in the changed mapping, or in the current mapping if only that one has the column.
	Name string
	// New is set if only the changed mapping has the column, and Missing if only the current one has it.
	New, Missing bool
	// Generated is set for a UUID column of both mappings. Its values always differ and are not compared.
	Generated bool
	// Different counts the records with different cells, among the records that both mappings accept.
	Different int64
	// Examples are the first three of these records.
	Examples []Example
}

// Example is a record with different cells in one column.
type Example struct {
	// Received is the arrival time of the record.
	Received time.Time
	// Current and Changed are the cells.
	Current, Changed Cell
}

// Cell is the cell of one record.
type Cell struct {
	// Text is the text of the cell, cut to 256 bytes.
	Text string
	// Null is set for NULL. Text is empty then.
	Null bool
}

// Rejection is a kind of rejection by one mapping.
type Rejection struct {
	// Changed is set for a rejection by the changed mapping.
	Changed bool
	// Reason is the name of a [mapping.Reason] or "rowTooLarge". Column is the column that failed.
	Reason, Column string
	// Records is the number of records. Message is the error of the first one, up to 1 KiB, without values of secret columns.
	Records int64
	Message string
}
