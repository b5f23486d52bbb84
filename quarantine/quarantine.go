// Package quarantine works on the records that a sink has rejected and keeps. It lists, edits, tests, replays and discards them. An engine has
// the quarantine of each sink:
//
//	q := engine.Sink("web", "events").Quarantine()
//	for r, err := range q.List(ctx, quarantine.Filter{Reason: "missingValue"}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(r.At, r.Message)
//	}
//
// The records are stored by package buffer.
package quarantine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

// Host is the engine of a sink, as its quarantine needs it.
type Host interface {
	// Sink returns the sink as it is defined now, if it accepts records.
	Sink(ctx context.Context) (Sink, error)
	// Known puts the ids of the sink into the error of the buffer for an unknown sink. It returns other errors as they are.
	Known(err error) error
}

// Sink is one definition of a sink.
type Sink struct {
	// Handle is the sink in the buffer.
	Handle *buffer.DefinedSink
	// Mapper maps its records, to rows of at most MaxRowBytes. It was compiled from Columns.
	Mapper      *mapping.Mapper
	Columns     mapping.Columns
	MaxRowBytes int
	// Mapping and Version name the definition. See [RejectedRecord].
	Mapping string
	Version int
}

// Quarantine is the quarantine of one sink. It is safe for concurrent use.
//
// All methods may fail with the error of [Host.Known] for a sink that was never defined, a [*buffer.FailedError], [buffer.ErrClosed] or the
// error of ctx.
type Quarantine struct {
	buf          *buffer.Buffer
	host         Host
	log          *slog.Logger
	source, sink string // ids
	note         Note
}

// New returns the quarantine of a sink.
func New(buf *buffer.Buffer, host Host, log *slog.Logger, source, sink string) Quarantine {
	return Quarantine{buf: buf, host: host, log: log, source: source, sink: sink}
}

// Note says who edits or discards records of a quarantine, and why. It is for people, and optional.
type Note struct {
	// By is who calls, up to 200 bytes. An edit stores it in [RejectedRecord.EditedBy].
	By string
	// Reason is why records are discarded, up to 4,000 bytes.
	Reason string
}

const maxNoteBy, maxNoteReason = 200, 4_000

// With returns the quarantine for a caller. Its edits store note.By, and each of its discards logs the note.
func (q Quarantine) With(note Note) Quarantine {
	q.note = Note{By: textcut.Short(note.By, maxNoteBy), Reason: textcut.Short(note.Reason, maxNoteReason)}
	return q
}

// RejectedRecord is a record in the quarantine of a sink, without its content.
type RejectedRecord struct {
	// ID is unique over all sinks and engines.
	ID string
	// Place is a [Filter.After]. It is the ID, unless the record came from another engine with [buffer.Moves.ReceiveRejected].
	Place string
	// Source and Sink are ids.
	Source, Sink string
	// At is the time of the first rejection. The age of the record counts from there.
	At time.Time
	// Reason is the name of a [mapping.Reason] or "rowTooLarge", Column the column that failed, and Message the error in words, up to
	// 1 KiB. They are of the last replay that failed, or else of the first rejection. Message contains no values of secret columns.
	Reason, Column, Message string
	// Mapping names the columns that have rejected the record, or have made the row that the target refused. It has eight digits, equal for equal
	// columns. Version is the Sink.Version of that definition, 0 if it had none.
	Mapping string
	Version int
	// Failed counts the replays that have failed, TriedAt is when the last one did.
	Failed  int
	TriedAt time.Time
	// Edited is set when the body was edited. Revision counts the edits and the replays that have failed.
	Edited   bool
	Revision int
	// EditedAt is the time of the last edit, and EditedBy its Note.By. Both are empty without an edit, and after edits of releases that did
	// not store them.
	EditedAt time.Time
	EditedBy string
	// Size is the share of the record in the bounds of the quarantine, in bytes.
	Size int64
	// Poison is set for a row that the target has refused, so that its file was imported without it. Reason is the code of the target. Column
	// and Message are the words of the target. The record is gone, so content and edits are the cells of the row.
	Poison *buffer.Poison
}

// Content is a record in the quarantine with its content. The caller owns it.
type Content struct {
	RejectedRecord
	// Record is the record that a replay maps. It has the arrival time of the event. Structured data, such as a Go value or telemetry, has
	// become its JSON. The body of a row that the target has refused is a JSON object with the cells by column, each a text or null. Bytes of a cell
	// that are not UTF-8 are shown as U+FFFD.
	Record *mapping.Record
	// Came is the body as it arrived. It is equal to Record.Body without an edit.
	Came []byte
	// Removed are the names of headers that were not kept. See Source.KeepHeaders. A mapping that reads them gets nothing.
	Removed []string
}

// Filter selects records. A zero field selects all.
type Filter struct {
	// Reason and Column are as in [RejectedRecord].
	Reason, Column string
	// Since and Until bound RejectedRecord.At. Until is outside.
	Since, Until time.Time
	// Version is the version of the definition, as in [RejectedRecord].
	Version int
	// Text is part of the Message, in any case.
	Text string
	// Content is part of the record, in any case. See [Quarantine.Contains], which reads each record that the other fields select.
	Content string
	// After selects the records that were rejected after the record with this id. With it, a listing continues an earlier one.
	After string
}

func (f *Filter) selects(r *RejectedRecord) bool {
	return (f.Reason == "" || f.Reason == r.Reason) && (f.Column == "" || f.Column == r.Column) && (f.Version == 0 || f.Version == r.Version) &&
		(f.Since.IsZero() || !r.At.Before(f.Since)) && (f.Until.IsZero() || r.At.Before(f.Until)) &&
		(f.Text == "" || strings.Contains(strings.ToLower(r.Message), strings.ToLower(f.Text)))
}

// List iterates over the records in the order of their rejections. Records that arrive or leave meanwhile may be listed or not. The last pair has
// the error, if there is one. It reads no content, except with [Filter.Content]. Then one step of the iteration may read the whole
// quarantine. [Quarantine.Page] bounds that.
func (q Quarantine) List(ctx context.Context, f Filter) iter.Seq2[RejectedRecord, error] {
	return func(yield func(RejectedRecord, error) bool) {
		for r, err := range q.buf.Sink(q.id()).Rejected(ctx, f.After) {
			if err != nil {
				yield(RejectedRecord{}, q.host.Known(err))
				return
			}
			rec := q.of(r)
			if !f.selects(&rec) {
				continue
			}
			if has, err := q.Contains(ctx, rec.ID, f.Content); err != nil {
				yield(RejectedRecord{}, err)
				return
			} else if has && !yield(rec, nil) {
				return
			}
		}
	}
}

// Has reports whether a record is in the quarantine now. It reads only memory.
func (q Quarantine) Has(id string) bool { return q.buf.Sink(q.id()).HasRejected(id) }

// Get returns a record with its content. The error is [buffer.ErrUnknownRejected] for one that is not in the quarantine.
func (q Quarantine) Get(ctx context.Context, id string) (Content, error) {
	c, _, err := Read(ctx, q, id)
	return c, err
}

// Read is [Quarantine.Get] with the stored form of the record. A record that is edited meanwhile is read again.
func Read(ctx context.Context, q Quarantine, id string) (c Content, data []byte, err error) {
	r, data, came, err := q.buf.Sink(q.id()).RejectedRecord(ctx, id)
	for errors.Is(err, buffer.ErrRejectedChanged) {
		r, data, came, err = q.buf.Sink(q.id()).RejectedRecord(ctx, id)
	}
	if err != nil {
		return c, nil, q.host.Known(err)
	}
	c.RejectedRecord = q.of(r)
	if r.Poison != nil {
		body, err := bodyOf(r.Poison, data)
		if err == nil {
			c.Came, err = bodyOf(r.Poison, came)
		}
		c.Record = mapping.JSON(body)
		return c, data, err
	}
	first, _, err := kept.Parse(came)
	if err != nil {
		return c, nil, err
	}
	c.Came = first.Body
	c.Record, c.Removed, err = kept.Parse(data)
	return c, data, err
}

// Edit replaces the body of a record. Of a row that the target has refused it replaces the cells that body, a JSON object, names. Each must
// fit the type of its column. revision is the Revision that the caller has seen. The body as it arrived is stored too, until the record
// leaves the quarantine.
//
// It also fails with an [*EditError] for cells that do not fit, [buffer.ErrRejectedChanged] if another call has edited or tried the record
// meanwhile, [buffer.ErrUnknownRejected], or an [*buffer.OverloadError] when the quarantine, memory or the disk has no room for the edit.
func (q Quarantine) Edit(ctx context.Context, id string, revision int, body []byte) error {
	c, data, err := Read(ctx, q, id)
	if err != nil {
		return err
	}
	if c.Poison != nil {
		data, err = editRow(c.Poison, data, body)
	} else {
		data, err = kept.WithBody(data, body)
	}
	if err != nil {
		return err
	}
	info := kept.Rejection{Reason: c.Reason, Column: c.Column, Message: c.Message, Mapping: c.Mapping, Version: c.Version, Failed: c.Failed, TriedAt: c.TriedAt}
	info.EditedAt, info.EditedBy = time.Now().UTC(), q.note.By
	return q.host.Known(q.buf.Sink(q.id()).UpdateRejected(ctx, id, revision, info.Encode(), data))
}

// Test maps a record with the current definition and stores nothing. It returns the cells, each with its value or its own error. Secret
// values are hidden. err is about the call. See [Quarantine.Replay].
func (q Quarantine) Test(ctx context.Context, id string) (cells []mapping.Cell, err error) {
	return q.test(ctx, id, nil)
}

// TestBody is Test for another body, as [Quarantine.Edit] would store it. Of a row that the target has refused, body names the cells
// to replace. For a cell that does not fit the error is an [*EditError].
func (q Quarantine) TestBody(ctx context.Context, id string, body []byte) (cells []mapping.Cell, err error) {
	return q.test(ctx, id, func(c *Content, data []byte) ([]byte, error) {
		if c.Poison != nil {
			return editRow(c.Poison, data, body)
		}
		c.Record.Body = body
		return nil, nil
	})
}

// test maps a record, changed by edit if that is not nil.
func (q Quarantine) test(ctx context.Context, id string, edit func(c *Content, data []byte) (row []byte, err error)) ([]mapping.Cell, error) {
	s, err := q.host.Sink(ctx)
	if err != nil {
		return nil, err
	}
	c, data, err := Read(ctx, q, id)
	if err == nil && edit != nil {
		data, err = edit(&c, data)
	}
	if err != nil {
		return nil, err
	}
	if c.Poison != nil {
		_, cells, err := s.refusedRow(c.Poison, data)
		if cells != nil {
			err = nil // each cell has its own
		}
		return cells, err
	}
	return s.Mapper.Cells(c.Record), nil
}

// Mapping names the columns of the current definition, as [RejectedRecord.Mapping] names the columns that rejected a record. A record with
// a different name may be accepted now. For errors see [Quarantine.Replay].
func (q Quarantine) Mapping(ctx context.Context) (string, error) {
	s, err := q.host.Sink(ctx)
	if err != nil {
		return "", err
	}
	return s.Mapping, nil
}

// Discard permanently deletes records and returns how many there were. It may be repeated.
func (q Quarantine) Discard(ctx context.Context, ids ...string) (int, error) {
	n, err := q.buf.Sink(q.id()).DiscardRejected(ctx, ids...)
	if n > 0 && q.note != (Note{}) {
		q.log.InfoContext(ctx, "rejected records discarded by request", "source", q.source, "sink", q.sink, "records", n, "by", q.note.By, "reason", q.note.Reason)
	}
	return n, q.host.Known(err)
}

// discardRecords is the size of the pieces in which DiscardAll works.
const discardRecords = 10 * replayRecords

// DiscardAll is Discard for the records that a filter selects when it is called.
func (q Quarantine) DiscardAll(ctx context.Context, f Filter) (discarded int, err error) {
	ids, err := q.ids(ctx, f)
	for len(ids) > 0 && err == nil {
		n := min(len(ids), discardRecords)
		var some int
		some, err = q.Discard(ctx, ids[:n]...)
		discarded += some
		ids = ids[n:]
	}
	return discarded, err
}

func (q Quarantine) ids(ctx context.Context, f Filter) (ids []string, err error) {
	for r, err := range q.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// id is the name of the sink in the buffer.
func (q Quarantine) id() string { return q.source + "/" + q.sink }

func (q Quarantine) of(r buffer.Rejected) RejectedRecord {
	var info kept.Rejection
	if p := r.Poison; p != nil && r.Info == nil {
		name := kept.ParseLabel(p.Label)
		info = kept.Rejection{Reason: p.Reason, Column: p.Column, Message: p.Message, Mapping: name.Mapping, Version: name.Version}
	} else if err := json.Unmarshal(r.Info, &info); err != nil {
		info.Message = fmt.Sprintf("the reason cannot be read: %v", err)
	}
	return RejectedRecord{
		ID: r.ID, Place: r.Place, Source: q.source, Sink: q.sink, At: r.At, Reason: info.Reason, Column: info.Column, Message: info.Message,
		Mapping: info.Mapping, Version: info.Version, Failed: info.Failed, TriedAt: info.TriedAt, Edited: r.Edited, Revision: r.Revision, Size: r.Size,
		EditedAt: info.EditedAt, EditedBy: info.EditedBy,
		Poison: r.Poison,
	}
}
