package forebay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/missing"
	"github.com/forebay/forebay/mapping"
)

// Archive keeps raw records: the target of sources with Source.Archive. [buffer/dir.Archive] is one in a folder.
//
// [buffer/dir.Archive]: https://pkg.go.dev/github.com/forebay/forebay/buffer/dir#Archive
type Archive interface {
	// Target imports each file exactly once. The id of its table is the [Source.ArchiveID] of the source, and the first column is the arrival time.
	driver.Target
	// Objects returns the names of the objects that may have records of an archive that arrived from a time on and before another one, in
	// ascending order of the names. An object never changes. Unknown archives have none.
	Objects(ctx context.Context, archive string, from, to time.Time) ([]string, error)
	// Open returns the rows of an object as CSV in the form of [driver.RowReader], behind a row with the names of the columns. The caller
	// closes the reader. For an absent object the error matches [io/fs.ErrNotExist].
	Open(ctx context.Context, archive, object string) (io.ReadCloser, error)
}

// ArchiveEraser is an optional interface of an [Archive], for [Engine.EraseArchive].
type ArchiveEraser interface {
	Archive
	// Erase deletes all objects of an archive. When it has returned nil, a crash does not bring them back. It may be repeated, also after an
	// error. An archive without objects is no error. Nothing is imported into the archive meanwhile.
	Erase(ctx context.Context, archive string) error
}

// ArchiveSettings make a source keep its raw records. The archive is one more sink of the source, [ArchiveSink] in results and counters: its rows
// are on disk before the answer like the rows of the others, it is bounded like them, and a record that it cannot take is an error of the call. A
// batch that is split by its handler is kept as its events. What is kept of headers says [Source.KeepHeaders].
type ArchiveSettings struct {
	// Settings override the settings of the source, field by field. An import makes at least one object.
	Settings Settings
}

// ArchiveSink is the id of the archive among the sinks of a source.
const ArchiveSink = ".archive"

// ArchiveID names the archive of the source: the ID, and with a Generation the ID, a dot and the Generation.
func (s Source) ArchiveID() string { return archiveID(s.ID, s.Generation) }

func archiveID(sourceID, generation string) string {
	if generation == "" {
		return sourceID
	}
	return sourceID + "." + generation
}

// archivedRow is how many times Options.MaxRowBytes a row of an archive may have: quotes of the body are doubled in it.
const archivedRow = 4

// archiveVersion is the version of the rows.
const archiveVersion = 1

// archivedHead is a record without its body in an archive.
type archivedHead struct {
	Version int    `json:"v"`
	Signal  Signal `json:"signal,omitempty"`
	keptHead
}

// archiveColumns returns the columns of an archive.
func archiveColumns() []datatype.Column {
	return []datatype.Column{
		{Name: "received", Type: datatype.Timestamp, Required: true}, {Name: "head", Type: datatype.JSON, Required: true}, {Name: "body"},
	}
}

var errNoArchive = errors.New("raw records wait for an archive: open the engine with Options.Archive")

// targetOf returns the target of a sink that is not Options.Target.
func (o Options) targetOf(sinkID string) driver.Target {
	switch {
	case !strings.HasSuffix(sinkID, "/"+ArchiveSink):
		return nil
	case o.Archive == nil:
		return missing.Target{Reason: errNoArchive} // rows of an earlier process wait for it
	}
	return o.Archive
}

// linkArchive defines the archive of a source in the buffer. The caller has e.define.
func (e *Engine) linkArchive(ctx context.Context, def Source) (*sink, error) {
	id, settings := bufferID(def.ID, ArchiveSink), def.Archive.Settings.over(def.Settings).effective()
	handle, err := e.buf.Define(ctx, buffer.SinkConfig{
		ID: id, Table: driver.Table{ID: def.ArchiveID(), Columns: archiveColumns()},
		Encoding: settings.encoding, Upload: settings.upload, Import: settings.imports,
	})
	if err != nil {
		return nil, fmt.Errorf("define the archive of source %q: %w", def.ID, err)
	}
	return &sink{
		id: ArchiveSink, handle: handle, sync: settings.sync, count: load[rejections](&e.counts, id),
		shadow: load[atomic.Pointer[Shadow]](&e.slots, id), archive: true,
	}, nil
}

// EraseArchive deletes all raw records of an archive, which [Source.ArchiveID] names, for good. It may be repeated, also after an error. A source
// that still keeps its raw records there is redefined without Archive, or removed, before.
//
// Errors: [ErrNoArchive], one that matches [errors.ErrUnsupported] if the archive is no [ArchiveEraser], one that matches [buffer.ErrSinkInUse] while a
// source keeps its records there or records are on their way there, [ErrClosed], the errors of the archive, the error of ctx.
func (e *Engine) EraseArchive(ctx context.Context, archive string) error {
	fail := func(err error) error { return fmt.Errorf("erase the archive %q: %w", archive, err) }
	sourceID, generation, hasGeneration := strings.Cut(archive, ".")
	err := validateID(sourceID)
	if err == nil && hasGeneration {
		err = validateID(generation)
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
	unlock, err := e.defining.Lock(ctx, archive, "") // without a generation the lock of the source: no definition begins to use it meanwhile
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
	st, _ := e.buf.SinkStats(bufferID(sourceID, ArchiveSink))
	for _, f := range st.Files {
		if f.Table.ID == archive && f.State != buffer.FileImported && f.State != buffer.FileExpired && f.State != buffer.FileDiscarded {
			return fail(fmt.Errorf("file %s is on its way there: %w", f.ID, buffer.ErrSinkInUse))
		}
	}
	if err := eraser.Erase(ctx, archive); err != nil {
		return fail(err)
	}
	e.log.Info("archive erased", "archive", archive)
	return nil
}

// CanEraseArchive reports whether the engine has an archive that is an [ArchiveEraser], so that [Engine.EraseArchive] can delete raw records.
func (e *Engine) CanEraseArchive() bool {
	_, ok := e.opts.Archive.(ArchiveEraser)
	return ok
}

// appendArchived appends the row of a record. A document without a JSON form cannot be kept.
func appendArchived(dst []byte, rec *mapping.Record, signal Signal, what *keptParts) ([]byte, error) {
	if year := rec.Received.UTC().Year(); year < 0 || year > 9999 {
		return dst, &mapping.Error{Reason: mapping.InvalidBody, Err: fmt.Errorf("the record was received in the year %d, which an archive has no folder for", year)}
	}
	head := archivedHead{Version: archiveVersion, Signal: signal, keptHead: headOf(rec, what).encodable()}
	text, err := json.Marshal(head)
	if err != nil {
		return dst, fmt.Errorf("forebay: keep the record: %w", err)
	}
	body := rec.Body
	if rec.Document != nil {
		if body, err = rec.Document.AppendJSON(nil); err != nil {
			return dst, &mapping.Error{Reason: mapping.InvalidBody, Err: err}
		}
	}
	row := append(dst, '"')
	row = rec.Received.UTC().AppendFormat(row, archiveTime)
	row = appendQuoted(append(row, `","`...), text)
	row = appendQuoted(append(row, `","`...), body)
	return append(row, '"', '\n'), nil
}

// archiveTime is the layout of arrival times.
const archiveTime = "2006-01-02T15:04:05.000000Z"

// appendQuoted appends a text with its quotes doubled.
func appendQuoted(dst, text []byte) []byte {
	for {
		at := bytes.IndexByte(text, '"')
		if at < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:at+1]...), '"')
		text = text[at+1:]
	}
}

// parseArchived reads a row. The record aliases the cells.
func parseArchived(cells [][]byte) (*mapping.Record, Signal, error) {
	if len(cells) != len(archiveColumns()) {
		return nil, "", fmt.Errorf("the row has %d cells, want %d", len(cells), len(archiveColumns()))
	}
	var head archivedHead
	if err := json.Unmarshal(cells[1], &head); err != nil {
		return nil, "", fmt.Errorf("the head cannot be read: %w", err)
	}
	if head.Version != archiveVersion {
		return nil, "", fmt.Errorf("the row has version %d, this library reads %d", head.Version, archiveVersion)
	}
	head.restoreRaw()
	return head.record(cells[2]), head.Signal, nil
}
