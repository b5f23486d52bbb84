package forebay

import "time"

// ShadowEnd says why a shadow has ended.
type ShadowEnd string

const (
	// ShadowRuns: it has not ended.
	ShadowRuns ShadowEnd = ""
	// ShadowTime: ShadowOptions.For has passed.
	ShadowTime ShadowEnd = "time"
	// ShadowRecords: ShadowOptions.Records were compared.
	ShadowRecords ShadowEnd = "records"
	// ShadowClosed: by [Shadow.Close] or [Engine.Close].
	ShadowClosed ShadowEnd = "closed"
	// ShadowRedefined: the sink got other columns, was disabled or removed.
	ShadowRedefined ShadowEnd = "redefined"
	// ShadowFailed: a mapping panicked; ShadowReport.Failure has what it said.
	ShadowFailed ShadowEnd = "failed"
)

// ShadowReport is what a shadow has found. The caller owns it.
//
// It is for those who may see records: examples have values of cells. Those of columns that are secret in one of the two mappings are
// ***.
type ShadowReport struct {
	// Source and Sink are ids.
	Source, Sink string
	// Began is when the shadow began, Ended when it took its last record; zero while it runs.
	Began, Ended time.Time
	// End says why it has ended.
	End ShadowEnd
	// Failure is the panic of ShadowFailed.
	Failure string

	// Seen are the records that the sink has mapped meanwhile. Each is one of: Unsampled, Dropped because too many waited or the shadow
	// ended before they were compared, TooLarge for MaxBytes, Unreadable because structured data has no JSON form, Waiting, Compared.
	Seen, Unsampled, Dropped, TooLarge, Unreadable, Waiting, Compared int64

	// Equal and Different are records that both mappings take: the cells of all columns that both have are equal, or some are not.
	// OnlyCurrent and OnlyChanged are records that one of them takes, Neither those that none takes. Together they are Compared.
	Equal, Different, OnlyCurrent, OnlyChanged, Neither int64
	// Columns has the columns of the changed mapping in its order, and behind them those that it lacks.
	Columns []ShadowColumn
	// Errors are the rejections that only one of the mappings has, or that differ in column or reason, by number of records. At most
	// 50 kinds are told apart; OtherErrors counts the records of further kinds.
	Errors      []ShadowRejection
	OtherErrors int64
	// CurrentTime and ChangedTime are how long the two mappings took for the records that were compared, each with its own reading of
	// the body.
	CurrentTime, ChangedTime time.Duration
	// Problems are the problems of the changed table that are known without asking the target, as [Engine.Accepts] has them.
	Problems []TableProblem
}

// ShadowColumn is one column of a [ShadowReport]. Columns of the two mappings belong together if their names are equal without case.
type ShadowColumn struct {
	// Name is the name in the changed mapping, or in the current one if only that has it.
	Name string
	// New is set when only the changed mapping has the column, Missing when only the current one has it.
	New, Missing bool
	// Generated is set for a UUID column of both mappings: its values are always different and are not compared.
	Generated bool
	// Different counts the records with different cells, among those that both mappings take.
	Different int64
	// Examples are the first three of them.
	Examples []ShadowExample
}

// ShadowExample is a record with different cells in one column.
type ShadowExample struct {
	// Received is the arrival time of the record.
	Received time.Time
	// Current and Changed are the cells.
	Current, Changed ShadowCell
}

// ShadowCell is the cell of one record.
type ShadowCell struct {
	// Text is the text of the cell, cut to 256 bytes.
	Text string
	// Null is set for NULL; Text is empty then.
	Null bool
}

// ShadowRejection is a kind of rejection that one mapping has.
type ShadowRejection struct {
	// Changed is set for a rejection by the changed mapping.
	Changed bool
	// Reason and Column are as in [RejectedRecord].
	Reason, Column string
	// Records is their number, Message the error of the first one in words, up to 1 KiB, without values of secret columns.
	Records int64
	Message string
}
