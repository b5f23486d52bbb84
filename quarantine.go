package forebay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// OnReject says what becomes of a record that a sink cannot map.
type OnReject uint8

const (
	// Refuse: the caller gets the error, and nothing is kept. It is the default.
	Refuse OnReject = iota
	// Quarantine: the record is kept in the quarantine of the sink, durably before the call returns, also with SyncUnsafe. Its result is
	// [Quarantined]. At the bounds of the quarantine it is [Failed] with a [*buffer.OverloadError], also in calls that wait for room. A
	// record that is larger than the whole quarantine, or that has no JSON form, is [Rejected].
	Quarantine
)

func (o OnReject) word() string {
	switch o {
	case Refuse:
		return "refuse"
	case Quarantine:
		return "quarantine"
	}
	return ""
}

// String returns "refuse" or "quarantine".
func (o OnReject) String() string { return cmp.Or(o.word(), fmt.Sprintf("OnReject(%d)", uint8(o))) }

// MarshalText returns the text of String.
func (o OnReject) MarshalText() ([]byte, error) {
	if o.word() == "" {
		return nil, fmt.Errorf("forebay: %s is unknown", o)
	}
	return []byte(o.word()), nil
}

// UnmarshalText reads "refuse", "quarantine" or nothing, which is the default.
func (o *OnReject) UnmarshalText(text []byte) error {
	switch string(text) {
	case "", Refuse.word():
		*o = Refuse
	case Quarantine.word():
		*o = Quarantine
	default:
		return fmt.Errorf("OnReject is %q, must be %q or %q", text, Refuse, Quarantine)
	}
	return nil
}

// SinkQuarantine is the quarantine of one sink: see [SinkHandle.Quarantine]. It is safe for concurrent use.
//
// Errors of all methods: [ErrUnknownSink] for a sink that was never defined, a [*buffer.FailedError], [ErrClosed], the error of ctx.
type SinkQuarantine struct {
	e            *Engine
	source, sink string
	note         QuarantineNote
}

// QuarantineNote says who edits or discards records of a quarantine, and why. All of it is for people, and optional.
type QuarantineNote struct {
	// By is who calls, up to 200 bytes; an edit keeps it in [RejectedRecord.EditedBy].
	By string
	// Reason is why records are discarded, up to 4,000 bytes.
	Reason string
}

const maxNoteBy, maxNoteReason = 200, 4_000

// With returns the quarantine for a caller. Its edits keep note.By, and each of its discards leaves a line in the log with the note.
func (q SinkQuarantine) With(note QuarantineNote) SinkQuarantine {
	q.note = QuarantineNote{By: cutText(note.By, maxNoteBy), Reason: cutText(note.Reason, maxNoteReason)}
	return q
}

// Quarantine returns the quarantine of a sink. What is in it stays when the sink is defined without one, or removed.
func (h SinkHandle) Quarantine() SinkQuarantine {
	return SinkQuarantine{e: h.e, source: h.source, sink: h.sink}
}

// RejectedRecord is a record in the quarantine of a sink, without its content.
type RejectedRecord struct {
	// ID is unique over all sinks and engines.
	ID string
	// Place is a [RejectedFilter.After]. It is the ID, unless another engine has rejected the record: see [Engine.ReceiveQuarantine].
	Place string
	// Source and Sink are ids.
	Source, Sink string
	// At is when it was rejected first. Its age counts from there.
	At time.Time
	// Reason is the name of a [mapping.Reason] or "rowTooLarge", Column the column that failed, and Message the error in words, up to
	// 1 KiB: of the first rejection, or of the last replay that failed. Values of secret columns are not in it.
	Reason, Column, Message string
	// Mapping names the columns that have rejected it, or have made the row that the target refused: eight digits, equal for equal columns.
	// Version is the [Sink.Version] of that definition, 0 if it had none.
	Mapping string
	Version int
	// Failed counts the replays that have failed, TriedAt is when the last one did.
	Failed  int
	TriedAt time.Time
	// Edited is set when the body was edited. Revision counts the edits and the replays that have failed.
	Edited   bool
	Revision int
	// EditedAt is when the body was edited last, and EditedBy by whom, as [SinkQuarantine.With] was told. Both are empty without an edit, and
	// after edits of releases that did not keep them.
	EditedAt time.Time
	EditedBy string
	// Size is what it counts in the bounds of the quarantine, in bytes.
	Size int64
	// Poison is set for a row that the target has refused, so that its file was imported without it. Reason is the code of the target, Column
	// and Message are its words. The record is gone: content and edits are the cells of the row.
	Poison *buffer.Poison
}

// RejectedContent is a record in the quarantine with its content. The caller owns it.
type RejectedContent struct {
	RejectedRecord
	// Record is what a replay maps. It has the arrival time of the event. Structured data, as of a Go value or of telemetry, has become its
	// JSON. The body of a row that the target has refused is a JSON object with the cells by column: a text, or null. Bytes of a cell that are not
	// UTF-8 are shown as U+FFFD.
	Record *mapping.Record
	// Came is the body as it came. It is equal to Record.Body if nobody has edited it.
	Came []byte
	// Removed are the names of headers that were not kept: see [Source.KeepHeaders]. A mapping that reads them gets nothing.
	Removed []string
}

// RejectedFilter selects records. A zero field selects all.
type RejectedFilter struct {
	// Reason and Column are as in [RejectedRecord].
	Reason, Column string
	// Since and Until bound RejectedRecord.At; Until is outside.
	Since, Until time.Time
	// Version is the version of the definition, as in [RejectedRecord].
	Version int
	// Text is part of the Message, in any case.
	Text string
	// Content is part of the record, in any case: see [SinkQuarantine.Contains], which reads each record that the other fields select.
	Content string
	// After selects what was rejected after the record with this id. With it a listing goes on where another one has ended.
	After string
}

func (f *RejectedFilter) selects(r *RejectedRecord) bool {
	return (f.Reason == "" || f.Reason == r.Reason) && (f.Column == "" || f.Column == r.Column) && (f.Version == 0 || f.Version == r.Version) &&
		(f.Since.IsZero() || !r.At.Before(f.Since)) && (f.Until.IsZero() || r.At.Before(f.Until)) &&
		(f.Text == "" || strings.Contains(strings.ToLower(r.Message), strings.ToLower(f.Text)))
}

// List iterates over the records in the order of their rejections. What comes or goes meanwhile may be seen or not. The last pair has the
// error, if there is one. It reads no content, except with [RejectedFilter.Content]: then one step of the iteration may read the whole
// quarantine. [SinkQuarantine.Page] bounds that.
func (q SinkQuarantine) List(ctx context.Context, f RejectedFilter) iter.Seq2[RejectedRecord, error] {
	return func(yield func(RejectedRecord, error) bool) {
		for r, err := range q.e.buf.Rejected(ctx, q.id(), f.After) {
			if err != nil {
				yield(RejectedRecord{}, q.err(err))
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

// Has reports whether a record is in the quarantine now. It reads memory alone.
func (q SinkQuarantine) Has(id string) bool { return q.e.buf.HasRejected(q.id(), id) }

// Get returns a record with its content. The error is [buffer.ErrUnknownRejected] for one that is not in the quarantine.
func (q SinkQuarantine) Get(ctx context.Context, id string) (RejectedContent, error) {
	c, _, err := q.get(ctx, id)
	return c, err
}

// get returns the bytes of the record too. A record that is edited meanwhile is read again.
func (q SinkQuarantine) get(ctx context.Context, id string) (c RejectedContent, data []byte, err error) {
	r, data, came, err := q.e.buf.RejectedRecord(ctx, q.id(), id)
	for errors.Is(err, buffer.ErrRejectedChanged) {
		r, data, came, err = q.e.buf.RejectedRecord(ctx, q.id(), id)
	}
	if err != nil {
		return c, nil, q.err(err)
	}
	c.RejectedRecord = q.of(r)
	if r.Poison != nil {
		body, err := poisonBody(r.Poison, data)
		if err == nil {
			c.Came, err = poisonBody(r.Poison, came)
		}
		c.Record = mapping.JSON(body)
		return c, data, err
	}
	_, first, err := parseKept(came)
	if err != nil {
		return c, nil, err
	}
	head, rec, err := parseKept(data)
	if err != nil {
		return c, nil, err
	}
	c.Record, c.Came, c.Removed = rec, first.Body, head.Removed
	return c, data, nil
}

// Edit replaces the body of a record. Of a row that the target has refused it replaces the cells that body, a JSON object, names; each must
// fit the type of its column. revision is the Revision that the caller has seen. The body as it came is kept beside it until the
// record leaves the quarantine.
//
// Further errors: an [*EditError] for cells that do not fit, [buffer.ErrRejectedChanged] if somebody has edited or tried the record meanwhile,
// [buffer.ErrUnknownRejected], and an [*buffer.OverloadError] when the quarantine, memory or the disk has no room for the edit.
func (q SinkQuarantine) Edit(ctx context.Context, id string, revision int, body []byte) error {
	c, data, err := q.get(ctx, id)
	if err != nil {
		return err
	}
	if c.Poison != nil {
		data, err = editPoison(c.Poison, data, body)
	} else {
		var head keptHead
		if head, _, err = parseKept(data); err == nil {
			data = append(head.append(nil), body...)
		}
	}
	if err != nil {
		return err
	}
	info := rejectInfo{Reason: c.Reason, Column: c.Column, Message: c.Message, Mapping: c.Mapping, Version: c.Version, Failed: c.Failed, TriedAt: c.TriedAt}
	info.EditedAt, info.EditedBy = time.Now().UTC(), q.note.By
	return q.err(q.e.buf.UpdateRejected(ctx, q.id(), id, revision, info.encode(), data))
}

// Test maps a record with the current definition and stores nothing. It returns the cells, each with its value or its own error. Secret
// values are hidden. err is about the call: see [SinkQuarantine.Replay].
func (q SinkQuarantine) Test(ctx context.Context, id string) (cells []mapping.Cell, err error) {
	return q.test(ctx, id, nil)
}

// TestBody is Test for another body, as [SinkQuarantine.Edit] would store it. Of a row that the target has refused, body names the cells
// to replace; for one that does not fit the error is an [*EditError].
func (q SinkQuarantine) TestBody(ctx context.Context, id string, body []byte) (cells []mapping.Cell, err error) {
	return q.test(ctx, id, func(c *RejectedContent, data []byte) ([]byte, error) {
		if c.Poison != nil {
			return editPoison(c.Poison, data, body)
		}
		c.Record.Body = body
		return nil, nil
	})
}

// test maps a record, changed by edit if that is not nil.
func (q SinkQuarantine) test(ctx context.Context, id string, edit func(c *RejectedContent, data []byte) (row []byte, err error)) ([]mapping.Cell, error) {
	s, err := q.open(ctx)
	if err != nil {
		return nil, err
	}
	c, data, err := q.get(ctx, id)
	if err == nil && edit != nil {
		data, err = edit(&c, data)
	}
	if err != nil {
		return nil, err
	}
	if c.Poison != nil {
		_, cells, err := s.poisonRow(c.Poison, data)
		if cells != nil {
			err = nil // each cell has its own
		}
		return cells, err
	}
	return s.mapper.Cells(c.Record), nil
}

// Mapping names the columns of the current definition, as [RejectedRecord.Mapping] names those that have rejected a record: a record with
// another name may pass now. For errors see [SinkQuarantine.Replay].
func (q SinkQuarantine) Mapping(ctx context.Context) (string, error) {
	s, err := q.open(ctx)
	if err != nil {
		return "", err
	}
	return s.name.mapping, nil
}

// ReplayResult counts what became of the records of a replay.
type ReplayResult struct {
	// Replayed are rows now. Rejected have failed again and stay in the quarantine, with the new reason. Gone were not there any
	// more: another call has replayed or discarded them, or they have expired.
	Replayed, Rejected, Gone int
}

const (
	// replayRecords and replayBytes bound what is read and mapped for one commit of a replay.
	replayRecords = 256
	replayBytes   = portionBytes
)

// Replay maps records with the current definition of the sink and moves those that it takes to the rows, durably. Each becomes one row
// whatever fails and however often Replay is called. Other sinks of the source are not touched. The row has the arrival time of
// the event, and comes later than the rows of events that came after it.
//
// Further errors: [ErrUnknownSource], [ErrDisabledSource], [ErrUnknownSink] also for a sink that is disabled or was removed,
// and an [*buffer.OverloadError]. Records before the error are counted in the result; the call may be repeated.
func (q SinkQuarantine) Replay(ctx context.Context, ids ...string) (res ReplayResult, err error) {
	p := replayer{q: q}
	for _, id := range ids {
		if err := p.add(ctx, id); err != nil {
			err = errors.Join(err, p.flush(ctx)) // what was mapped before does not wait for the next call
			return p.res, err
		}
	}
	err = p.flush(ctx)
	return p.res, err
}

// ReplayAll is Replay for the records that a filter selects when it is called. Records that are rejected meanwhile, or fail again,
// are not tried once more.
func (q SinkQuarantine) ReplayAll(ctx context.Context, f RejectedFilter) (ReplayResult, error) {
	ids, err := q.ids(ctx, f)
	if err != nil {
		return ReplayResult{}, err
	}
	return q.Replay(ctx, ids...)
}

// Discard deletes records for good and returns how many there were. It may be repeated.
func (q SinkQuarantine) Discard(ctx context.Context, ids ...string) (int, error) {
	n, err := q.e.buf.DiscardRejected(ctx, q.id(), ids...)
	if n > 0 && q.note != (QuarantineNote{}) {
		q.e.log.InfoContext(ctx, "rejected records discarded by request", "source", q.source, "sink", q.sink, "records", n, "by", q.note.By, "reason", q.note.Reason)
	}
	return n, q.err(err)
}

// DiscardAll is Discard for the records that a filter selects when it is called.
func (q SinkQuarantine) DiscardAll(ctx context.Context, f RejectedFilter) (discarded int, err error) {
	ids, err := q.ids(ctx, f)
	for len(ids) > 0 && err == nil {
		n := min(len(ids), 10*replayRecords)
		var some int
		some, err = q.Discard(ctx, ids[:n]...)
		discarded += some
		ids = ids[n:]
	}
	return discarded, err
}

func (q SinkQuarantine) ids(ctx context.Context, f RejectedFilter) (ids []string, err error) {
	for r, err := range q.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.ID)
	}
	return ids, nil
}

func (q SinkQuarantine) id() string { return bufferID(q.source, q.sink) }

func (q SinkQuarantine) err(err error) error { return q.e.unknownSink(err, q.source, q.sink) }

func (q SinkQuarantine) of(r buffer.Rejected) RejectedRecord {
	var info rejectInfo
	if p := r.Poison; p != nil && r.Info == nil {
		name := parseLabel(p.Label)
		info = rejectInfo{Reason: p.Reason, Column: p.Column, Message: p.Message, Mapping: name.mapping, Version: name.version}
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

// open returns the sink as it is defined now.
func (q SinkQuarantine) open(ctx context.Context) (*sink, error) {
	src, err := q.e.open(ctx, q.source)
	if err != nil {
		return nil, err
	}
	for _, s := range src.sinks {
		if s.id == q.sink && !s.archive {
			return s, nil
		}
	}
	return nil, unknownSink(q.source, q.sink)
}

// replayer maps records and gathers their rows for a commit.
type replayer struct {
	q    SinkQuarantine
	res  ReplayResult
	sink *sink // of the rows that wait
	rows []buffer.ReplayRow
	size int
}

// add maps one record. Its row waits for flush; a rejection is noted at once.
func (p *replayer) add(ctx context.Context, id string) error {
	if len(p.rows) == replayRecords || p.size >= replayBytes {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	s, err := p.q.open(ctx)
	if err != nil {
		return err
	}
	if p.sink != s && p.sink != nil { // the definition has changed
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.sink = s
	for {
		c, data, err := p.q.get(ctx, id)
		switch {
		case errors.Is(err, buffer.ErrUnknownRejected):
			p.res.Gone++
			return nil
		case err != nil:
			return err
		}
		row, cause := s.row(&c, data)
		if size := len(row); cause == nil && size > p.q.e.opts.MaxRowBytes {
			cause = &RowTooLargeError{Size: size, Limit: p.q.e.opts.MaxRowBytes}
		}
		if cause == nil {
			p.rows = append(p.rows, buffer.ReplayRow{ID: id, Revision: c.Revision, Row: row})
			p.size += len(row)
			return nil
		}
		info := infoOf(cause, s.name)
		info.Failed, info.TriedAt = c.Failed+1, time.Now().UTC()
		info.EditedAt, info.EditedBy = c.EditedAt, c.EditedBy
		switch err := p.q.e.buf.UpdateRejected(ctx, p.q.id(), id, c.Revision, info.encode(), nil); {
		case errors.Is(err, buffer.ErrRejectedChanged):
			continue
		case errors.Is(err, buffer.ErrUnknownRejected):
			p.res.Gone++
			return nil
		case err != nil:
			return p.q.err(err)
		}
		p.res.Rejected++
		return nil
	}
}

// row maps a record of the quarantine, or takes the row that it is. data are its bytes.
func (s *sink) row(c *RejectedContent, data []byte) ([]byte, error) {
	if c.Poison == nil {
		return s.mapper.AppendRow(nil, c.Record)
	}
	cells, _, err := s.poisonRow(c.Poison, data)
	if err != nil {
		return nil, err
	}
	return appendRow(nil, cells), nil
}

// flush moves the records whose rows wait. A record that was edited since it was mapped is mapped once more.
func (p *replayer) flush(ctx context.Context) error {
	rows := p.rows
	if p.rows, p.size = nil, 0; len(rows) == 0 {
		return nil
	}
	outcomes, err := p.q.e.buf.ReplayRejected(ctx, p.sink.handle, time.Now(), rows...)
	if err != nil {
		return p.q.err(err)
	}
	var again []string
	for i, err := range outcomes {
		switch {
		case err == nil:
			p.res.Replayed++
		case errors.Is(err, buffer.ErrRejectedChanged):
			again = append(again, rows[i].ID)
		default:
			p.res.Gone++
		}
	}
	for _, id := range again {
		if err := p.add(ctx, id); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}
