package buffer

import (
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
)

// Hooks are functions that a buffer calls at events, for owners that count them by other means than [Options.Meter]. Each is optional. They run on
// the goroutine of the event, with no lock held, several at once. A slow one delays rows, and none may call the buffer.
type Hooks struct {
	// Commit is called when a commit has ended, before its callers learn so.
	Commit func(CommitEvent)
	// Driver is called when a call of a driver has ended.
	Driver func(DriverEvent)
	// Delivered is called when the record that a file is in its table is on disk. After a crash, the event of a file may be missing.
	Delivered func(DeliveredEvent)
	// Refused is called when a call is refused at a bound.
	Refused func(*OverloadError)
}

// CommitEvent is a commit that has ended.
type CommitEvent struct {
	// Took is the time from its start until it was on disk, or failed.
	Took time.Duration
	// Bytes is the size of its rows before compression. It is 0 if the commit only contains states of slices and files.
	Bytes int64
	// Err is why it failed, or nil if it was stored.
	Err error
}

// DriverEvent is a call of a driver that has ended.
type DriverEvent struct {
	// SinkID is the sink that the call was for.
	SinkID string
	// Step is "upload" or "import", or another step such as "clean-up".
	Step string
	// Took is how long the call ran.
	Took time.Duration
	// Err is its error, or nil if it succeeded.
	Err error
	// FileID is the file of an upload or import. SliceID is the slice of an upload. Both are empty for other steps.
	FileID, SliceID string
	// Rows and Bytes are the size of the rows that an upload or import moves, before compression. They are 0 for other steps.
	Rows, Bytes int64
	// FirstAt and LastAt are the times at which the first and the last row were accepted, in milliseconds. They are zero for other steps.
	FirstAt, LastAt time.Time
}

// DeliveredEvent is a file whose rows are in their table.
type DeliveredEvent struct {
	// SinkID is the sink, FileID the file.
	SinkID, FileID string
	// Rows and Bytes are the size of the file before compression. They include rows that the target refused.
	Rows, Bytes int64
	// Waited is the time since its first row was accepted.
	Waited time.Duration
}

// eventOf returns the event of a call that moves rows, before the call.
func eventOf(step, sinkID, fileID string, t format.Tally) DriverEvent {
	return DriverEvent{
		SinkID: sinkID, Step: step, FileID: fileID, Rows: t.Rows, Bytes: t.Raw, FirstAt: time.UnixMilli(t.First), LastAt: time.UnixMilli(t.Last),
	}
}

func (h *Hooks) committed(e CommitEvent) {
	if h.Commit != nil {
		h.Commit(e)
	}
}

func (h *Hooks) called(e DriverEvent) {
	if h.Driver != nil {
		h.Driver(e)
	}
}

func (h *Hooks) delivered(e DeliveredEvent) {
	if h.Delivered != nil {
		h.Delivered(e)
	}
}

func (h *Hooks) refused(over *OverloadError) {
	if h.Refused != nil {
		h.Refused(over)
	}
}
