package buffer

import (
	"context"
	"io"
)

// Staging is the second level of the buffer: a place that holds the bytes of sealed slices until the file they belong
// to has been imported. Implementations must be safe for concurrent use.
//
// # Idempotency contract
//
// Object.ID is chosen and persisted before the first call that names it, and it is never given to other bytes. After a
// crash or an error whose outcome is unknown the buffer repeats the call with the same id. Therefore:
//
//   - Put of an id that is already stored succeeds and leaves one object, whichever of the two writes is kept: both
//     carry the same rows. An interrupted Put leaves nothing that Open can see.
//   - When Put returns nil the object is durable: the buffer then deletes the local rows.
//   - Delete of an absent id succeeds.
//
// An error is retried with backoff, up to Retry.Probe; one that is marked by [Permanent] up to Retry.Max.
// [buffertest.Staging] checks the contract.
//
// [buffertest.Staging]: https://pkg.go.dev/github.com/forebay/forebay/buffer/buffertest#Staging
type Staging interface {
	// Put stores one object. src may be read only during the call. A cancelled ctx ends the call soon; the outcome is
	// then unknown.
	Put(ctx context.Context, obj Object, src Content) error

	// Open returns the stored bytes exactly as Put got them. The caller closes the reader. An absent object is an
	// error that matches [fs.ErrNotExist].
	Open(ctx context.Context, obj Object) (io.ReadCloser, error)

	// Delete removes objects. It stops at the first error; the buffer repeats the call with the same objects.
	Delete(ctx context.Context, objs ...Object) error
}

// Content gives the bytes of one object, as often as a driver needs to read them (a driver may retry by itself).
type Content interface {
	// Open starts a new reading from the first byte. The caller closes the reader before Put returns. The bytes are
	// the same at every reading.
	Open() (io.ReadCloser, error)

	// WriteTo writes all bytes to w without an intermediate buffer, and is the cheapest way to read them.
	io.WriterTo
}

// Target is the third level: the tables. Implementations must be safe for concurrent use. A program passes its target to the
// engine in forebay.Options.Target.
//
// [Counter], [Uncreator], [Taker] and [LocalDriver] are optional. Their comments say what each adds.
//
// # Idempotency contract
//
// File.ID is chosen and persisted before the first Import that names it. After a crash or an error whose outcome is
// unknown the buffer repeats Import with the same id and the same slices. A target that records the id in the same
// transaction as the rows gives exactly once. A target that cannot must say "at least once" in its documentation and
// narrow the window, for example by saving the id of a remote job with File.SaveProgress before it waits for it.
//
// Errors are retried with backoff, up to Retry.Probe. A [*SchemaError] and those marked by [Permanent] are retried up to
// Retry.Max, and at once when the sink is defined again or somebody asks ([Buffer.Retry], [Buffer.Flush]); the file stays in staging
// meanwhile.
//
// A call that has not returned 10 seconds after the end of its context counts as failed and is left alone: the next
// attempt, with the same id, may then run beside it. The same holds for Staging.
//
// # Rows
//
// A file is stored whole or not at all: readers never see a part of its rows. Import fails when a slice that it reads breaks
// off or has another number of rows than Object.Rows. The buffer does not compare them, and a plain slice without its last
// rows looks intact otherwise.
//
// A cell may hold any bytes: quotes, newlines of every kind ("\r\n" stays "\r\n"), NUL, bytes that are not UTF-8. A
// target that cannot store some of them fails the import with a [Permanent] error; it never changes them. Read
// the cells with a [RowReader]: encoding/csv turns "\r\n" inside a cell into "\n". Write JSON with care: encoding/json
// replaces bytes that are not UTF-8.
//
// [buffertest.Target] checks the contract.
//
// [buffertest.Target]: https://pkg.go.dev/github.com/forebay/forebay/buffer/buffertest#Target
type Target interface {
	// Ensure creates the table if it is absent. When it is present its columns must be those of t, in the same order;
	// otherwise the error is a [*SchemaError] and nothing is changed. It may be repeated.
	Ensure(ctx context.Context, t Table) error

	// Import appends all rows of f to f.Table, in the order of f.Slices and of the rows in them, once per f.ID. It
	// creates the table if it is absent, and fails with a [*SchemaError], storing nothing, when the columns differ.
	// When it returns nil the rows are durable and visible to readers. A cancelled ctx ends the call soon; the outcome
	// is then unknown.
	Import(ctx context.Context, f *File) error
}

// LocalDriver is an optional interface of a [Staging] or [Target] that writes to a disk of this machine. Where that is the
// volume of the local level, the buffer keeps the room that the local level needs to close and to open: a call that would
// take it is not made and counts as failed, with this cause, until there is room. Without this interface the driver may
// take that room.
type LocalDriver interface {
	// Needs returns the folder below which Put of a slice, or Import of a file, writes, and how many bytes at most. The
	// slices have so many bytes as they are stored in staging, and raw bytes before compression. The folder need not exist.
	Needs(stored, raw int64) (folder string, bytes int64)
}

// Counter is an optional interface of a [Target] that can say how many rows it holds for one imported file.
// The verification of the ledger uses it; without it the imported rows are taken from the ledger alone.
type Counter interface {
	// CountFile returns the rows that the table holds for the file id. An id that was never imported gives 0, nil.
	CountFile(ctx context.Context, t Table, fileID string) (int64, error)
}

// Uncreator is an optional interface of a [Target] that can take back a table that it has created: a definition that fails
// in the end, also by a crash, then leaves no table that would refuse the corrected one. Its Ensure marks the tables that it
// creates with Table.Creation.
type Uncreator interface {
	// Uncreate removes a table that Ensure has created with this mark and that has no rows. Every other table stays, and an
	// absent one is no error. It may be repeated. The caller makes sure that no Ensure or Import of the table runs meanwhile.
	Uncreate(ctx context.Context, tableID, creation string) error
}

// Taker is an optional interface of a [Target] whose readers may take imported parts away, as a loader does that deletes what
// it has loaded. It is asked by [Buffer.Verify] for files that a [Counter] counts no rows of: those that were taken away are
// no difference to the ledger.
type Taker interface {
	// TakenAway reports whether the rows of a file that was imported were taken away on purpose, as far as the target can
	// tell. It is false for a file of which some rows are there.
	TakenAway(ctx context.Context, t Table, fileID string) (bool, error)
}

// Table is a destination table as a driver sees it: every cell is text.
type Table struct {
	// ID is the table's name in the target, for example "in.c-web.events". It is what the user wrote, any text but the empty
	// one: ".." and "a/b" too. Two ids never share a table. A driver refuses an id that it cannot use with a [Permanent] error.
	ID string
	// Columns are the names, at least one, in the order of the cells of a row. An engine gives no name twice. A driver must
	// not modify the slice.
	Columns []string
	// Creation is not empty in calls of Target.Ensure whose effect may be taken back: the mark of the table if the call
	// creates it, see [Uncreator]. It has lower-case letters, digits and '-', at most 64 of them, and is on disk before the
	// call. A target that is no Uncreator ignores it.
	Creation string `json:",omitempty"`
}

// Object describes one sealed slice in staging.
type Object struct {
	// ID is unique over all engines and all time: lower-case letters, digits and '-', at most 64 bytes. Ids of one
	// engine ascend with the creation of the slices.
	ID string
	// FileID is the id of the file to which the slice belongs.
	FileID string
	// SinkID is the sink that wrote the rows, as the user of the buffer named it.
	SinkID string
	// Encoding tells how the bytes are stored.
	Encoding Encoding
	// Rows is the number of CSV rows, RawBytes their size before compression.
	Rows, RawBytes int64
}

// File is a set of slices that are imported together, once.
type File struct {
	// ID is unique over all engines and all time, with the alphabet of Object.ID.
	ID string
	// SinkID is the sink that wrote the rows.
	SinkID string
	// Table is the destination as it was defined when the file was opened.
	Table Table
	// Slices are the objects in the order in which their rows were accepted. None is empty.
	Slices []Object
	// Rows and RawBytes are the totals of the slices.
	Rows, RawBytes int64

	// OpenSlice opens the stored bytes of one slice from staging, as [Staging.Open] does.
	OpenSlice func(ctx context.Context, obj Object) (io.ReadCloser, error)
	// Progress is what an earlier attempt saved last, nil at first.
	Progress []byte
	// SaveProgress persists a small note (at most 4 KiB) of this import, such as the id of a remote job. When it
	// returns nil the note is on disk and is given to every later attempt. It may be called several times.
	SaveProgress func(ctx context.Context, note []byte) error
}

// OpenRows returns the plain CSV bytes of one slice: rows end with "\n", every cell is quoted, there is no header.
// The caller closes the reader.
func (f *File) OpenRows(ctx context.Context, obj Object) (io.ReadCloser, error) {
	rc, err := f.OpenSlice(ctx, obj)
	if err != nil {
		return nil, err
	}
	return Decode(obj.Encoding, rc)
}
