package buffer

import (
	"errors"
	"fmt"
	"time"
)

// Errors are typed by the reaction they call for:
//
//	reject  the record can never be stored as it is        mapping.Error, forebay.RowTooLargeError, *TooLargeError
//	wait    try again later, nothing was accepted           *OverloadError
//	        try again later, the outcome is unknown         *FailedError, *UnknownError
//	retry   a later attempt may succeed                     every error that has no other mark
//	stop    another owner has the instance                  *FencedError
//	repair  a person has to change something first          *driver.SchemaError, *driver.RowsError, driver.Permanent, *ChangeError, ErrClosed
var (
	// ErrClosed is returned by every call after Close has begun.
	ErrClosed = errors.New("buffer: the engine is closed: open it again")

	// ErrUnknownSink is returned for a sink id that was never defined.
	ErrUnknownSink = errors.New("buffer: unknown sink")

	// ErrImportRuns is returned for a file that cannot be given up yet, because a call of Target.Import did not return after the
	// end of its context, and may still store the rows. Try again when it has returned, or after a restart.
	ErrImportRuns = errors.New("buffer: an import that was left alone still runs")

	// ErrSinkInUse is returned for a sink that cannot be forgotten. Drop it, and flush or discard its waiting rows.
	ErrSinkInUse = errors.New("buffer: the sink is defined, or rows of it wait")

	// ErrNotHeld is returned for a file that cannot be split or go to the quarantine as asked, because no import of it has failed, the target has
	// not refused its rows, or the target is no [driver.Voider]. The error says which.
	ErrNotHeld = errors.New("buffer: the file cannot be split")

	// ErrFileMoves is matched by the error of a call about a file that moves to another engine. See [Moves.BeginDeparture]. Try again in a moment.
	ErrFileMoves = errors.New("buffer: the file moves to another engine, try again")

	// ErrUnknownFile is returned for a file id that the sink does not have, or whose file has ended already.
	ErrUnknownFile = errors.New("buffer: unknown file")

	// ErrUnknownSlice is matched by the error for a slice id that the buffer does not have, or whose file has ended already.
	ErrUnknownSlice = errors.New("buffer: unknown slice")
)

// FileGrewError is the error of [SinkHandle.DiscardUpTo] for a file that has more rows than the caller has agreed to lose. Nothing was discarded.
type FileGrewError struct {
	// Sink and File are ids.
	Sink, File string
	// Rows is the number of rows in the file.
	Rows int64
}

func (e *FileGrewError) Error() string {
	return fmt.Sprintf("buffer: file %s of sink %q has %d rows now and was not discarded", e.File, e.Sink, e.Rows)
}

// OverloadError says that a bound of memory or disk is reached. Nothing of the call was accepted. The caller may
// repeat it after RetryAfter. The bounds are Tuning.MaxPendingBytes, MaxDiskBytes and MaxSinkBytes.
type OverloadError struct {
	// Resource is the bound that was hit: "memory" (bytes not yet committed), "disk" (the waiting bytes of all sinks, in
	// local and staging, or the size of the local level's files, bounded by MaxDiskBytes or their volume), "sink" (the
	// waiting bytes of one sink) or "quarantine" (QuarantineBounds of one sink).
	Resource string
	// Used and Limit are in bytes.
	Used, Limit int64
	// Volume is the folder of the local level if its volume is full. Free is the number of free bytes of the volume. The store keeps them for
	// its own work. Volume is empty if a bound of the Tuning is reached.
	Volume string
	Free   int64
	// RetryAfter is the least time after which a retry makes sense.
	RetryAfter time.Duration
	// Silent is since when the [Changelog] has not responded, if rows wait for it in memory. Zero means that it is not the cause.
	Silent time.Time

	size int64 // of the call
}

func (e *OverloadError) Error() string {
	if e.Volume != "" {
		return fmt.Sprintf("buffer: overloaded: the disk of the server is full: the volume of %s has %d free bytes, which the store keeps for its own work, retry after %s",
			e.Volume, e.Free, e.RetryAfter)
	}
	where := map[string][2]string{
		"memory": {"in memory", "MaxPendingBytes"},
		"disk":   {"on disk", "MaxDiskBytes and the volume"},
		"sink":   {"while rows of the sink wait for their table", "MaxSinkBytes"},

		"quarantine": {"in the quarantine of the sink", "its MaxBytes, or all of its MaxRecords"},
	}[e.Resource]
	text := fmt.Sprintf("buffer: overloaded: no room %s (%d of the %d bytes of %s are in use), retry after %s",
		where[0], e.Used, e.Limit, where[1], e.RetryAfter)
	if !e.Silent.IsZero() {
		text += ": the changelog has not responded since " + e.Silent.Format(time.RFC3339)
	}
	return text
}

// TooLargeError says that one call carries more bytes than a bound ever admits. Repeating it is useless. Split it, or raise
// the bound.
type TooLargeError struct {
	// Size and Limit are in bytes.
	Size, Limit int64
	// Option is the bound: "MaxPendingBytes" or "MaxDiskBytes".
	Option string
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("buffer: %d bytes of rows in one call, at most %d are admitted: split the call or raise %s",
		e.Size, e.Limit, e.Option)
}

// FailedError says that the local level could not be written or read, because of a broken, full or absent disk. Acknowledged rows are safe as far
// as the disk kept them. The outcome of the call is unknown, and rows that no caller waited for may be lost. The buffer closes the
// store and opens it again by itself, with the backoff of Tuning.Retry, and accepts rows as soon as that succeeds. The process need not
// do anything. It may also close the engine and open it again. A [Changelog] that fails is such a failure too. A FailedError that wraps
// a [*StoreDamageError] does not pass: [Restore] the local level.
type FailedError struct{ Err error }

func (e *FailedError) Error() string {
	_, log := errors.AsType[*changelogError](e.Err)
	if _, damage := errors.AsType[*StoreDamageError](e.Err); log || damage {
		return fmt.Sprintf("buffer: it is not known whether this was stored: %v", e.Err)
	}
	return fmt.Sprintf("buffer: local level failed: %v; it is being reopened, check the disk", e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// UnknownError says that a call ended before its outcome was known, because its context ended while rows of the call waited for the disk, or a
// later part of the call failed. All, some or none of its rows may be stored. Send the call again with the same key, as forebay.Engine.IngestOnce
// takes it. Without a key its rows may be stored twice. An error of a context that is no UnknownError says that nothing was stored.
type UnknownError struct {
	// Err is the cause of the context, or the error of the later part.
	Err error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("buffer: it is not known whether this was stored: %v; send it again with the same key", e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// FencedError says that another owner has opened the [Changelog] of this instance, as after a pause in which this one was taken
// for dead. The buffer has stopped permanently. The outcome of calls in progress is unknown. The rows in the changelog are the
// other owner's. Close the buffer and move its folder away. Staged objects of it may be the other owner's too.
type FencedError struct {
	// Instance is the name of the instance, with which its ids begin.
	Instance string
	// Err is the error of the changelog.
	Err error
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("buffer: instance %s has another owner, this one has stopped for good: %v", e.Instance, e.Err)
}

func (e *FencedError) Unwrap() error { return e.Err }

// RoomError says that the volume of the local level is too small to open it, or to upgrade its format for a definition. Nothing is
// lost or changed. Give it room and try again.
type RoomError struct {
	// Dir is the folder of the local level.
	Dir string
	// Free are the free bytes of the volume, Needed the bytes that the local level needs.
	Free, Needed int64
	// For is the purpose of the needed bytes.
	For string

	err error
}

func (e *RoomError) Error() string { return e.err.Error() }
func (e *RoomError) Unwrap() error { return e.err }

// errReopened ends calls that began before the local level was reopened.
var errReopened = &FailedError{Err: errors.New("the local level was reopened during the call")}

// StoreDamageError says that the store of a data directory is damaged where [Inspect], which changes nothing, would have
// to change it. An engine that opens the directory sets the damaged store aside and continues with the undamaged parts. With a
// [Changelog] Open returns it too, and every call after Options.OnDamage, because [Restore] makes the whole store again.
type StoreDamageError struct {
	// Dir is the directory.
	Dir string
	// Err describes the damage.
	Err error

	replicated bool
}

func (e *StoreDamageError) Error() string {
	if e.replicated {
		return fmt.Sprintf("buffer: the store in %s is damaged: %v; restore it from its checkpoint and its changelog", e.Dir, e.Err)
	}
	return fmt.Sprintf("buffer: the store in %s is damaged: %v; an engine that opens it sets it aside and salvages its intact part",
		e.Dir, e.Err)
}

func (e *StoreDamageError) Unwrap() error { return e.Err }
