package forebay

import (
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/callspans"
)

// CommitHook is for [Options.Hooks]. OnCommit is called for each commit to the local disk, which has the rows of many callers.
//
// Hooks run on the goroutine of the event, with no lock held, several at once. A slow one delays rows. None may call the engine.
type CommitHook interface {
	// OnCommit gets a commit that has ended.
	OnCommit(buffer.CommitEvent)
}

// UploadHook is for [Options.Hooks], see [CommitHook].
type UploadHook interface {
	// OnUpload gets an upload of a slice that has ended.
	OnUpload(DriverEvent)
}

// ImportHook is for [Options.Hooks], see [CommitHook].
type ImportHook interface {
	// OnImport gets an import of a file that has ended.
	OnImport(DriverEvent)
}

// DeliverHook is for [Options.Hooks], see [CommitHook].
type DeliverHook interface {
	// OnDeliver gets a file whose rows are in their table. After a crash, the event of a file may be missing.
	OnDeliver(DeliverEvent)
}

// RejectHook is for [Options.Hooks], see [CommitHook].
type RejectHook interface {
	// OnReject gets a record that a sink does not map, even if it goes into a quarantine. It runs on the caller's goroutine.
	OnReject(RejectEvent)
}

// RefuseHook is for [Options.Hooks], see [CommitHook].
type RefuseHook interface {
	// OnRefuse gets the error of a call that is refused at a bound of the disk, of memory or of a sink.
	OnRefuse(*buffer.OverloadError)
}

// DriverEvent is a call of a driver that has ended.
type DriverEvent struct {
	// Source and Sink are ids.
	Source, Sink string
	// Took is how long the call ran.
	Took time.Duration
	// Err is its error, or nil if it succeeded.
	Err error
}

// DeliverEvent is a file whose rows are in their table.
type DeliverEvent struct {
	// Source and Sink are ids.
	Source, Sink string
	// File is the id of the file, as [buffer.FileStats] has it.
	File string
	// Rows and Bytes are the size of the file before compression. They include rows that the target refused.
	Rows, Bytes int64
	// Waited is the time since the first row of the file was accepted.
	Waited time.Duration
}

// RejectEvent is a record that a sink does not map.
type RejectEvent struct {
	// Source and Sink are ids.
	Source, Sink string
	// Err says why. It is a [*mapping.Error] or a [*RowTooLargeError].
	Err error
}

func isHook(v any) bool {
	switch v.(type) {
	case CommitHook, UploadHook, ImportHook, DeliverHook, RejectHook, RefuseHook:
		return true
	}
	return false
}

// hooksOf returns the hooks of the buffer.
func hooksOf(v any, spans *callspans.Spans) (h buffer.Hooks) {
	if hook, ok := v.(CommitHook); ok {
		h.Commit = hook.OnCommit
	}
	upload, uploads := v.(UploadHook)
	imported, imports := v.(ImportHook)
	if uploads || imports {
		h.Driver = func(e buffer.DriverEvent) {
			source, sink, _ := strings.Cut(e.SinkID, "/")
			switch event := (DriverEvent{source, sink, e.Took, e.Err}); {
			case uploads && e.Step == "upload":
				upload.OnUpload(event)
			case imports && e.Step == "import":
				imported.OnImport(event)
			}
		}
	}
	if spans != nil {
		hook := h.Driver
		h.Driver = func(e buffer.DriverEvent) {
			spans.DriverCall(e)
			if hook != nil {
				hook(e)
			}
		}
	}
	if hook, ok := v.(DeliverHook); ok {
		h.Delivered = func(e buffer.DeliveredEvent) {
			source, sink, _ := strings.Cut(e.SinkID, "/")
			hook.OnDeliver(DeliverEvent{source, sink, e.FileID, e.Rows, e.Bytes, e.Waited})
		}
	}
	if hook, ok := v.(RefuseHook); ok {
		h.Refused = hook.OnRefuse
	}
	return h
}

// rejectHook returns the function that a sink calls for a record that it does not map, or nil without a hook.
func (e *Engine) rejectHook(sourceID, sinkID string) func(error) {
	hook, ok := e.opts.Hooks.(RejectHook)
	if !ok {
		return nil
	}
	return func(err error) { hook.OnReject(RejectEvent{sourceID, sinkID, err}) }
}
