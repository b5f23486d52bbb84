package forebay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/ids"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/rejections"
	"github.com/forebay/forebay/shadow"
)

// Archive keeps raw records. It is the target of sources with Source.Archive. [buffer/dir.Archive] is one in a folder.
//
// [buffer/dir.Archive]: https://pkg.go.dev/github.com/forebay/forebay/buffer/dir#Archive
type Archive interface {
	// Target imports each file exactly once. The id of its table is the [Source.ArchiveID] of the source, and the first column is the arrival time.
	driver.Target
	// Objects returns the names of the objects that may have records of an archive that arrived at or after from and before to, in
	// ascending order of the names. An object never changes. Unknown archives have none.
	Objects(ctx context.Context, archive string, from, to time.Time) ([]string, error)
	// Open returns the rows of an object as CSV in the form of [driver.RowReader], after a row with the names of the columns. The caller
	// closes the reader. For an absent object the error matches [io/fs.ErrNotExist].
	Open(ctx context.Context, archive, object string) (io.ReadCloser, error)
}

// ArchiveEraser is an optional interface of an [Archive], for [Engine.EraseArchive].
type ArchiveEraser interface {
	Archive
	// Erase deletes all objects of an archive. When it has returned nil, a crash does not bring them back. It may be repeated, even after an
	// error. An archive without objects is no error. Nothing is imported into the archive meanwhile.
	Erase(ctx context.Context, archive string) error
}

// ArchiveReplacer is an optional interface of an [Archive], for [Engine.Erase].
type ArchiveReplacer interface {
	Archive
	// Archives returns the names of all archives, in ascending order.
	Archives(ctx context.Context) ([]string, error)
	// Replace gives an object other rows, in one step. After an error or a crash it has all of its old rows or all of the new ones. When Replace has
	// returned nil, a crash does not bring the old ones back. rows are as Open returns them, and as many as the object has, so that the positions of
	// replays stay valid. An error of rows is returned, and the object keeps its rows. For an absent object the error matches [io/fs.ErrNotExist].
	// Replace is not called twice at once for one object.
	Replace(ctx context.Context, archive, object string, rows io.Reader) error
}

// ArchiveSettings make a source keep its raw records. The archive is one more sink of the source, [ArchiveSink] in results and counters. Like the
// rows of other sinks, its rows are on disk before the response and it is bounded. A record that it cannot take is an error of the call. A batch
// that is split by its handler is kept as its events. [Source.KeepHeaders] selects the headers that are kept.
type ArchiveSettings struct {
	// Settings override the settings of the source, field by field. An import makes at least one object.
	Settings Settings
}

// linkArchive defines the archive of a source in the buffer. The caller has e.define.
func (e *Engine) linkArchive(ctx context.Context, def Source) (*sink, error) {
	id, settings := bufferID(def.ID, ArchiveSink), def.Archive.Settings.over(def.Settings).effective()
	handle, err := e.buf.Define(ctx, buffer.SinkConfig{
		ID: id, Table: driver.Table{ID: def.ArchiveID(), Columns: kept.RowColumns()},
		Encoding: settings.encoding, Upload: settings.upload, Import: settings.imports,
	})
	if err != nil {
		return nil, fmt.Errorf("define the archive of source %q: %w", def.ID, err)
	}
	return &sink{
		id: ArchiveSink, handle: handle, sync: settings.sync, count: load[rejections.Counter](&e.counts, id),
		shadow: load[shadow.Slot](&e.slots, id), archive: true,
	}, nil
}

// EraseArchive permanently deletes all raw records of the archive that [Source.ArchiveID] names. It may be repeated, even after an error. A
// source that still keeps its raw records there must first be redefined without Archive, or removed.
//
// Errors: [ErrNoArchive], one that matches [errors.ErrUnsupported] if the archive is no [ArchiveEraser], one that matches [buffer.ErrSinkInUse] while a
// source keeps its records there or records are on their way there, [ErrClosed], the errors of the archive, the error of ctx.
func (e *Engine) EraseArchive(ctx context.Context, archive string) error {
	fail := func(err error) error { return fmt.Errorf("erase the archive %q: %w", archive, err) }
	sourceID, generation, hasGeneration := strings.Cut(archive, ".")
	err := ids.Validate(sourceID)
	if err == nil && hasGeneration {
		err = ids.Validate(generation)
	}
	if err != nil {
		return fail(fmt.Errorf("the name %w", err))
	}
	if e.opts.Archive == nil {
		return fail(ErrNoArchive)
	}
	eraser, ok := e.opts.Archive.(ArchiveEraser)
	if !ok {
		return fail(fmt.Errorf("%w by this archive", errors.ErrUnsupported))
	}
	unlock, err := e.defining.Lock(ctx, archive, "") // without a generation the lock of the source, so that no definition begins to use it meanwhile
	if err != nil {
		return fail(err)
	}
	defer unlock()
	if e.closed.Load() {
		return ErrClosed
	}
	if src, ok := e.Source(sourceID); ok && src.Archive != nil && src.ArchiveID() == archive {
		return fail(fmt.Errorf("source %q keeps its records there: %w", sourceID, buffer.ErrSinkInUse))
	}
	st, _ := e.buf.Sink(bufferID(sourceID, ArchiveSink)).Stats()
	for _, f := range st.Files {
		if f.Table.ID == archive && f.State != buffer.FileImported && f.State != buffer.FileExpired && f.State != buffer.FileDiscarded {
			return fail(fmt.Errorf("file %s is on its way there: %w", f.ID, buffer.ErrSinkInUse))
		}
	}
	if st.Arriving > 0 { // perhaps of another archive of the source, and only for a moment
		return fail(fmt.Errorf("%d files of another engine arrive: %w", st.Arriving, buffer.ErrSinkInUse))
	}
	if err := eraser.Erase(ctx, archive); err != nil {
		return fail(err)
	}
	e.log.Info("archive erased", "archive", archive)
	return nil
}
