package driver

import (
	"context"
	"io"

	"github.com/forebay/forebay/datatype"
)

// Staging is the second level of the buffer, a place that holds the bytes of sealed slices until the file they belong
// to has been imported. Implementations must be safe for concurrent use.
//
// # Idempotency contract
//
// Object.ID is on disk before the first call that uses it, and one id always stands for the same rows. After a crash, or an
// error with an unknown outcome, the buffer repeats the call with the same id. Therefore:
//
//   - Put of an id that is already stored succeeds and leaves one object. Either write may win, because both carry the same rows.
//     An interrupted Put leaves nothing that Open can see.
//   - When Put returns nil the object is durable. The buffer then deletes the local rows.
//   - Delete of an absent id succeeds.
//
// Errors are retried with a backoff of at most Retry.Probe, those marked by [Permanent] of at most Retry.Max.
// [buffertest.Staging] checks the contract.
//
// [buffertest.Staging]: https://pkg.go.dev/github.com/forebay/forebay/buffer/buffertest#Staging
type Staging interface {
	// Put stores one object. src may be read only during the call. When ctx ends, Put returns soon. The outcome is then
	// unknown.
	Put(ctx context.Context, obj Object, src Content) error

	// Open returns the stored bytes exactly as Put got them. The caller closes the reader. For an absent object the error
	// matches [fs.ErrNotExist].
	Open(ctx context.Context, obj Object) (io.ReadCloser, error)

	// Delete removes objects. It stops at the first error. The buffer repeats the call with the same objects.
	Delete(ctx context.Context, objs ...Object) error
}

// Content is the bytes of one object. A driver may read them several times, for its own retries.
type Content interface {
	// Open returns a reader that starts at the first byte. The caller closes it before Put returns. Every reader gives the
	// same bytes.
	Open() (io.ReadCloser, error)

	// WriteTo writes all bytes to w without an intermediate buffer. It is the cheapest way to read them.
	io.WriterTo
}

// Target is the third level, the tables. Implementations must be safe for concurrent use. A program passes its target to the
// engine in forebay.Options.Target.
//
// [Counter], [Extender], [ManyImporter], [Limiter], [Uncreator], [Taker], [Voider], [Compactor], [LocalDriver], [Exclusive], [Querier] and
// [Tailer] are optional. Their comments say what each adds.
//
// # Idempotency contract
//
// File.ID is on disk before the first Import that uses it. After a crash, or an error with an unknown outcome, the buffer
// repeats Import with the same id and the same rows, or fewer (see [File]). A target that records the id in the same transaction as the rows
// imports exactly once. A target that cannot must say "at least once" in its documentation and narrow the window, for example by saving the
// id of a remote job with File.SaveProgress before it waits for the job.
//
// Errors are retried with a backoff of at most Retry.Probe, a [*SchemaError], a [*RowsError] and errors marked by [Permanent] of
// at most Retry.Max. A new definition of the sink, SinkHandle.Retry and Engine.Flush retry at once. The file stays in staging
// meanwhile.
//
// A call that has not returned 10 seconds after the end of its context counts as failed. The buffer no longer waits for it,
// so the next attempt, with the same id, may run alongside it. The same holds for Staging.
//
// # Rows
//
// A file is stored whole or not at all. Readers never see a part of its rows. Import fails when a slice that it reads breaks
// off, has another number of rows than Object.Rows, or has a row with another number of cells than File.Table has columns. The
// buffer does not compare them, and a plain slice without its last rows looks intact otherwise. [File.ReadRows] makes these checks.
//
// A target that refuses single rows, for example by a constraint of the table, says which and why with a [*RowsError]. With a [Voider] the other
// rows are imported.
//
// In a typed column an empty cell without quotes is NULL, and "" is the empty text. Loaders differ in how they read the two, so a
// driver says so to its loader or writes the rows again in its own form. The word null is text like any other.
//
// A cell may hold any bytes, such as quotes, newlines of every kind ("\r\n" stays "\r\n"), NUL, and bytes that are not UTF-8. A
// target that cannot store some of them fails the import with a [Permanent] error. It never changes them. Read
// the cells with [File.ReadRows], because encoding/csv turns "\r\n" inside a cell into "\n". Write JSON with care, because
// encoding/json replaces bytes that are not UTF-8.
//
// [buffertest.Target] checks the contract.
//
// [buffertest.Target]: https://pkg.go.dev/github.com/forebay/forebay/buffer/buffertest#Target
type Target interface {
	// Ensure creates the table if it is absent. An existing table must have the columns of t in the same order. Otherwise
	// the error is a [*SchemaError] and nothing is changed. It may be repeated. [Table.Fit] compares. A t with Extend set goes
	// to [Extender.Extend] instead.
	Ensure(ctx context.Context, t Table) error

	// Import appends all rows of f to f.Table, in the order of f.Slices and of the rows in them, once per f.ID. It creates
	// the table if it is absent. If the columns differ it stores nothing and returns a [*SchemaError]. When it returns nil
	// the rows are durable and visible to readers. When ctx ends, Import returns soon. The outcome is then unknown.
	//
	// A file with f.Table.Extend set is imported as [Extender] says. Extend may be set between two attempts of one file, when a
	// definition of the sink sets it.
	Import(ctx context.Context, f *File) error
}

// Extender is an optional interface of a [Target] whose tables can get more columns. A sink with Table.Extend needs it.
//
// Several engines with different columns may feed one table, and a file keeps the columns of the definition that it was opened
// with. So Import of a file with Table.Extend first does what Extend does, finds the place of each cell by the name of its
// column, and stores NULL in the columns that the file lacks. [Table.Fit] has the rules for both.
type Extender interface {
	// Extend creates the table, or adds the columns of t that it lacks after its own. All of them are nullable. If a column of
	// the table has a type that cannot hold the values of t, it adds nothing and returns a [*SchemaError]. It may be repeated,
	// even concurrently, because a call that finds a column added meanwhile compares again.
	Extend(ctx context.Context, t Table) error
}

// ManyImporter is an optional interface of a [Target] that can import several files in one transaction. With it the buffer imports small files of
// many tables together. Only a target that records the id in the same transaction as the rows can have it.
type ManyImporter interface {
	// ImportMany does in one transaction what Import does for each of the files, in their order. It adds nothing for an id that is imported
	// already, and imports the others. It stores all of the others, or nothing. A row that is refused, a table that does not fit, a slice that
	// breaks off or an id that is ruled out fails the call. Several files may be for one table. Their slices are in memory.
	//
	// When it returns nil the rows of all files are durable and visible to readers. After an error the outcome is unknown, and the buffer calls
	// Import for each of the files. So ImportMany need not say which file has failed, look for refused rows, or create a table. An error is enough.
	// It must be safe to run at the same time as Import of the same ids, because an abandoned call may still run.
	ImportMany(ctx context.Context, files []*File) error
}

// Limiter is an optional interface of a [Target] whose tables cannot store every value of a type. The engine then rejects such a
// value at ingestion, where the caller learns of it. Import never reads such a value in a typed column. In an untyped column it never reads a
// value that UTF8, NoNUL or MaxCell of [datatype.Limits] forbids.
type Limiter interface {
	// Limits returns the same value at each call, without asking the tables. The engine calls it once, at its opening.
	Limits() datatype.Limits
}

// LocalDriver is an optional interface of a [Staging] or [Target] that writes to a disk of this machine. If that is the volume
// of the local level, the buffer reserves the room that the local level needs to close and to open. A call that would take
// this room is not made and counts as failed, until there is room. Without this interface the driver may take that room.
type LocalDriver interface {
	// Needs returns the folder in which Put of a slice, or Import of a file, writes, and the largest number of bytes that it
	// writes. stored is the size of the slices in staging, raw their size before compression. A driver that owns the whole folder returns the folder,
	// and no checkpoint is made inside of it. A driver that writes to a single file, such as an embedded database, returns the path of the file. The
	// path need not exist.
	Needs(stored, raw int64) (path string, bytes int64)
}

// Counter is an optional interface of a [Target] that can count the rows of one imported file. Engine.Verify uses it.
// Without it Verify trusts the ledger for imported rows.
type Counter interface {
	// CountFile returns the rows that the table holds for the file id. An id that was never imported gives 0, nil.
	CountFile(ctx context.Context, t Table, fileID string) (int64, error)
}

// Uncreator is an optional interface of a [Target] that can remove a table that it has just created. A definition that fails,
// even by a crash, then leaves no table that would refuse the corrected definition. Ensure marks the tables that it creates
// with Table.Creation.
type Uncreator interface {
	// Uncreate removes a table that Ensure created with this mark and that has no rows. Every other table stays. An absent
	// table is not an error. It may be repeated. The caller ensures that no Ensure or Import of the table runs meanwhile.
	Uncreate(ctx context.Context, tableID, creation string) error
}

// Taker is an optional interface of a [Target] from which imported rows may be removed, for example by age, or by a loader
// that deletes the rows it has loaded. Engine.Verify asks it about files for which the [Counter] finds too few rows. Rows
// that were taken away are not a difference to the ledger.
type Taker interface {
	// TakenAway reports whether the rows of an imported file that are missing were removed on purpose, as far as the target can
	// tell. It is false if a part of the rows is there that cannot remain when others are removed.
	TakenAway(ctx context.Context, t Table, fileID string) (bool, error)
}

// Voider is an optional interface of a [Target] that can rule out an import permanently. With it a file whose rows are refused in part by a
// [*RowsError] is imported without these rows, under ids that are derived from its own. Only a target that records the id in the same
// transaction as the rows can have it. A sink with HoldFiles in its buffer.QuarantineBounds does not use it.
type Voider interface {
	// Void rules out that the rows of a file ever come into the table, and reports false. From then on Import of the id stores nothing and
	// returns a [Permanent] error that matches [ErrVoid], even a call that began before, or in another process. If the file is imported, Void
	// changes nothing and reports true. When it returns nil the result is durable. It may be repeated. CountFile of an id that is ruled out
	// gives 0.
	Void(ctx context.Context, t Table, fileID string) (imported bool, err error)
}

// Compactor is an optional interface of a [Target] that tidies its tables in the background, for example merges small parts.
type Compactor interface {
	// Compact is called after imports into a table, at least once an hour while its sink exists (see also buffer.Options.TargetOf), and never twice at once for
	// one sink. It must be safe during imports. An error is logged, and the call is repeated with the next import or an hour later. A [LocalDriver]
	// is asked for Needs(0, 0) before.
	Compact(ctx context.Context, t Table) error
}

// Table is a destination table as a driver sees it.
type Table struct {
	// ID is the table's name in the target, for example "in.c-web.events". It is the user's text, any text but the empty one:
	// ".." and "a/b" too. Two ids never share a table. A driver refuses an id that it cannot use with a [Permanent] error.
	ID string
	// Columns are the columns, at least one, in the order of the cells of a row. An engine gives no name twice. A driver must
	// not modify the slice. A cell of an untyped column is any text. A cell of a typed column is its canonical text, see
	// package datatype, or NULL.
	Columns []datatype.Column
	// Extend says that the table may have additional columns, in any order, and gets the columns that it lacks, see
	// [Extender]. Without it the table has exactly these columns.
	Extend bool `json:",omitempty"`
	// Creation, if not empty, is the mark that Target.Ensure gives the table if it creates it, so that [Uncreator] can remove
	// it. It has at most 64 lower-case letters, digits and '-', and is on disk before the call. Other targets ignore it.
	Creation string `json:",omitempty"`
	// Target is the name that the owner of the buffer gives to the target of the table. It is empty if the owner has one target. It is part of the
	// identity of the table in the buffer, and no driver reads it.
	Target string `json:",omitempty"`
}

// Names returns the names of the columns. The caller owns the slice.
func (t Table) Names() []string { return datatype.Names(t.Columns) }

// Object describes one sealed slice in staging.
type Object struct {
	// ID is unique over all engines and all time. It consists of lower-case letters, digits and '-', at most 64
	// bytes. Ids of one engine ascend with the creation of the slices.
	ID string
	// FileID is the id of the slice's file.
	FileID string
	// SinkID is the id of the sink, as in buffer.SinkConfig.
	SinkID string
	// Encoding is the encoding of the stored bytes.
	Encoding Encoding
	// Rows is the number of CSV rows, RawBytes their size before compression.
	Rows, RawBytes int64
}

// File is a set of slices that are imported together, once.
//
// A file may be a part of a larger file. Its Slices then have some of the rows, without compression. OpenSlice makes them from the objects in staging,
// where they are not by themselves. Rows that were erased before any import of the file are left out in this way, for every target. If an import has
// begun, a [Voider] gets the other rows under a new id, and a [Counter] that has none of the file gets them under the old one. A Voider also gets parts of
// a file whose rows it refuses.
type File struct {
	// ID is unique over all engines and all time, with the alphabet of Object.ID.
	ID string
	// SinkID is the sink that wrote the rows.
	SinkID string
	// Table is the destination as it was defined when the file was opened.
	Table Table
	// Slices are the objects in the order in which their rows were accepted. None is empty.
	Slices []Object
	// Rows and RawBytes are the totals of the slices. For a part of a file, RawBytes is an upper bound.
	Rows, RawBytes int64

	// OpenSlice opens the stored bytes of one slice from staging, as [Staging.Open] does.
	OpenSlice func(ctx context.Context, obj Object) (io.ReadCloser, error)
	// Copied says that a different engine may have imported the id, without a note in Progress, because a checkpoint contains the file, or its records
	// are from a damaged store. A target that looks for the id only after a note looks for it then too.
	Copied bool
	// Progress is the note that was saved last, or nil if there is none.
	Progress []byte
	// SaveProgress stores a note of at most 4 KiB about this import, such as the id of a remote job. When it returns nil the
	// note is on disk, and later attempts get it as Progress. A later note replaces it.
	SaveProgress func(ctx context.Context, note []byte) error
}

// OpenRows returns the plain CSV bytes of one slice. Rows end with "\n", every cell is quoted or, for NULL, empty, and there is no
// header.
// The caller closes the reader.
func (f *File) OpenRows(ctx context.Context, obj Object) (io.ReadCloser, error) {
	rc, err := f.OpenSlice(ctx, obj)
	if err != nil {
		return nil, err
	}
	return Decode(obj.Encoding, rc)
}
