package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/pebblestore"
)

// QuarantineBounds say how much the quarantine of a sink holds. A zero field means its default.
type QuarantineBounds struct {
	// MaxBytes bounds the bytes of the records. A record counts its Info, its Data, the Data of its last edit, and 256 bytes. Compression
	// is not counted. All of it counts toward Tuning.MaxDiskBytes too. Default: a 256th of MaxDiskBytes, 64 MiB.
	MaxBytes int64
	// MaxRecords bounds their number. Each takes 48 bytes of memory. Default: 100,000.
	MaxRecords int
	// MaxAge is how long a record is kept from its first rejection on. Then it expires, and the ledger counts it. Default: 30 days.
	MaxAge time.Duration
	// DropOldest lets the oldest records expire at MaxBytes and MaxRecords. Default: new ones are refused, see
	// [DefinedSink.QuarantineFull].
	DropOldest bool
	// HoldFiles holds a file when the target refuses rows of it, so that it is imported whole or not at all. Default: it is imported
	// without them and they go to the quarantine, if the target is a [driver.Voider].
	HoldFiles bool
}

func (q QuarantineBounds) withDefaults(t Tuning) QuarantineBounds {
	setDefault(&q.MaxBytes, max(t.MaxDiskBytes/256, 64<<10))
	setDefault(&q.MaxRecords, 100_000)
	setDefault(&q.MaxAge, 30*24*time.Hour)
	return q
}

// Validate reports every breach at once. Zero fields count as their defaults.
func (q QuarantineBounds) Validate() error {
	q = q.withDefaults(Tuning{MaxDiskBytes: 16 << 30})
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("quarantine: "+format, args...))
		}
	}
	check(q.MaxBytes >= 1<<10, "MaxBytes is %d, the least is %d", q.MaxBytes, 1<<10)
	check(q.MaxRecords >= 1 && q.MaxRecords <= 10_000_000, "MaxRecords is %d, allowed is 1 to 10000000", q.MaxRecords)
	check(q.MaxAge >= time.Second, "MaxAge is %s, the least is 1s", q.MaxAge)
	return errors.Join(problems...)
}

// Reject is a record that its sink could not map, for [Rows.Rejects].
type Reject struct {
	// Info says why, as the caller likes to know it when it lists records. It is read with every listing, so keep it small.
	Info []byte
	// Data is the record.
	Data []byte
}

func (r Reject) size() int64 {
	return (&format.Reject{Came: int64(len(r.Data)), Info: r.Info}).Size()
}

// Rejected is a record in the quarantine of a sink.
type Rejected struct {
	// ID is unique over all sinks and engines. Ids of one engine ascend in the order of the rejections.
	ID string
	// Place is the position after which a list continues. It is the ID, unless another engine has rejected the record. See
	// [Moves.ReceiveRejected].
	Place string
	// SinkID is the sink.
	SinkID string
	// At is when the record was rejected first. Its age counts from there.
	At time.Time
	// Info is the Info of [Reject], or of the last [SinkHandle.UpdateRejected].
	Info []byte
	// Revision counts the updates. Edited is set when an update has replaced the record.
	Revision int
	Edited   bool
	// Size is the size of the record in bounds.
	Size int64
	// Poison is set for a row that the target has refused. The record is the row as CSV, and Info is nil until the first
	// [SinkHandle.UpdateRejected].
	Poison *Poison
}

// Poison says where a refused row comes from and why the target refuses it.
type Poison struct {
	// FileID is the file that had the row, and RowError its number there and the words of the target.
	FileID string
	driver.RowError
	// Columns are the columns of the row. The caller must not modify them.
	Columns []datatype.Column
	// Label is the [SinkConfig.Label] with which the file was opened.
	Label string
}

var (
	// ErrUnknownRejected is returned for a record that is not in the quarantine, because it was replayed, discarded, has expired, or never was.
	ErrUnknownRejected = errors.New("buffer: the record is not in the quarantine")

	// ErrRejectedChanged is returned for a revision that is not the last one, because the record was updated meanwhile. Read it again.
	ErrRejectedChanged = errors.New("buffer: the rejected record was changed meanwhile")

	// ErrNoQuarantine is returned for rejected records of a sink that is defined without a quarantine.
	ErrNoQuarantine = errors.New("buffer: the sink has no quarantine")
)

// QuarantineFull returns nil if the sink's quarantine takes a record of size bytes, Info and Data, in addition to the records that the caller
// has asked for and not appended yet, so many records with so many bytes. Append does not ask, so that one full quarantine does not refuse
// the rows next to the record. A caller that rejects a record asks before. Concurrent callers may each pass the bounds by the records that
// they have not appended yet.
//
// It returns an [*OverloadError] of the resource "quarantine" at the bounds, a [*TooLargeError] for a record that never fits,
// or [ErrNoQuarantine].
func (s *DefinedSink) QuarantineFull(size, records, bytes int) error {
	need := int64(size) + format.RejectOverhead
	s.b.mu.RLock()
	q, held, used := s.state.rec.Quarantine, int64(s.state.held.len()), s.state.heldBytes
	s.b.mu.RUnlock()
	held += s.state.rejecting.records.Load() + int64(records)
	used += s.state.rejecting.bytes.Load() + int64(bytes) + int64(records)*format.RejectOverhead
	switch {
	case !q.On:
		return ErrNoQuarantine
	case need > q.MaxBytes:
		return &TooLargeError{Size: need, Limit: q.MaxBytes, Option: "MaxBytes of the quarantine"}
	case q.DropOldest || used+need <= q.MaxBytes && held < int64(q.MaxRecords):
		return nil
	}
	return s.b.admission.refuse(&OverloadError{Resource: "quarantine", Used: used, Limit: q.MaxBytes, RetryAfter: time.Minute})
}

// hadQuarantine reports whether some definition of the sink had a quarantine, so that it has bounds and the store the format.
func (s *sinkState) hadQuarantine(b *Buffer) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return s.rec.Quarantine.MaxAge > 0
}

// boundQuarantine notes bounds without zero fields.
func boundQuarantine(q *format.Quarantine, v QuarantineBounds) {
	q.MaxBytes, q.MaxRecords, q.MaxAge, q.DropOldest, q.HoldFiles = v.MaxBytes, v.MaxRecords, v.MaxAge, v.DropOldest, v.HoldFiles
}

// defineQuarantine notes the bounds of a definition. The bounds of an earlier one stay in force for the existing records.
func (t *txn) defineQuarantine(s *sinkState, bounds *QuarantineBounds) {
	if q := t.b.quarantineOf(s, bounds); q != s.rec.Quarantine {
		s.rec.Quarantine = q
		t.touchSink(s)
		t.expireRejects(s)
	}
}

// quarantineOf returns the record of the quarantine of a sink, with other bounds. Called with mu held.
func (b *Buffer) quarantineOf(s *sinkState, bounds *QuarantineBounds) format.Quarantine {
	q := s.rec.Quarantine
	q.On = bounds != nil
	if bounds != nil {
		boundQuarantine(&q, bounds.withDefaults(b.opts.Tuning))
	}
	return q
}

// quarantinePage is how many heads are read at once.
const quarantinePage = 256

// Rejected iterates over the quarantine of a sink in the order of the rejections, from the first record after the id after, or from the oldest if
// it is empty. It reads a few hundred heads at once, and no records. Records that are added or removed meanwhile may be seen or
// not. The last pair has the error, if there is one: [ErrUnknownSink], a [*FailedError], [ErrClosed], the error of ctx.
func (h SinkHandle) Rejected(ctx context.Context, after string) iter.Seq2[Rejected, error] {
	return func(yield func(Rejected, error) bool) {
		from := uint64(0)
		if after != "" {
			seq, ok := h.b.rejectedPlace(h.id, after)
			if !ok {
				yield(Rejected{}, fmt.Errorf("%w: %q", ErrUnknownRejected, after))
				return
			}
			from = seq + 1
		}
		for {
			if ctx.Err() != nil {
				yield(Rejected{}, context.Cause(ctx))
				return
			}
			page, next, more, err := h.b.rejectedPage(h.id, from)
			if err != nil {
				yield(Rejected{}, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			if from = next; !more {
				return
			}
		}
	}
}

// rejectedPlace returns the number of a record that is in the list, or was, or of a [Rejected.Place].
func (b *Buffer) rejectedPlace(sinkID, id string) (seq uint64, ok bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.mu.sinks[sinkID]; s != nil {
		if seq, ok := s.held.moved[id]; ok {
			return seq, true
		}
	}
	_, seq, ok = format.ParseRejectID(id)
	return seq, ok
}

// rejectedPage returns the next records of a list, and where the one after them begins. more means that there may be some.
func (b *Buffer) rejectedPage(sinkID string, from uint64) (page []Rejected, next uint64, more bool, err error) {
	b.mu.RLock()
	s := b.mu.sinks[sinkID]
	b.mu.RUnlock()
	if s == nil {
		return nil, 0, false, fmt.Errorf("%w: %q", ErrUnknownSink, sinkID)
	}
	next = from
	seen := 0
	err = b.readStore(func(db *pebble.DB) error {
		it, err := db.NewIter(iterBounds(format.RejectKey(s.num, from), format.RejectKey(s.num+1, 0)))
		if err != nil {
			return err
		}
		for ok := it.First(); ok && seen < quarantinePage; ok = it.Next() {
			value, e := it.ValueAndErr()
			var head format.Reject
			if e == nil {
				e = format.Decode(value, &head)
			}
			if e != nil {
				err = e
				break
			}
			_, seq, _ := format.ParseRejectKey(it.Key()[1:])
			seen, next = seen+1, seq+1
			if head.From == nil {
				page = append(page, b.rejectedOf(&head, seq))
			}
		}
		return errors.Join(err, it.Error(), it.Close())
	})
	if err != nil {
		err = fmt.Errorf("buffer: list the quarantine of sink %q: %w", sinkID, err)
	}
	return page, next, seen == quarantinePage, err
}

// readStore calls fn with the database, which stays open meanwhile.
func (b *Buffer) readStore(fn func(*pebble.DB) error) error {
	o := b.store.Opening()
	if o.Read() != nil {
		if f := b.failure(); f != nil {
			return f
		}
		return ErrClosed
	}
	defer o.Release()
	return fn(o.DB)
}

func (b *Buffer) rejectedOf(r *format.Reject, seq uint64) Rejected {
	place := r.ID
	if r.Moved {
		place = format.RejectID(b.instance, seq)
	}
	out := Rejected{
		ID: r.ID, Place: place, SinkID: r.SinkID, At: time.UnixMilli(r.At).UTC(), Info: r.Info, Revision: int(r.Revision), Edited: r.Edit > 0,
		Size: r.Size(),
	}
	if p := r.Poison; p != nil {
		out.Poison = &Poison{p.File, driver.RowError(p.RefusedRow), p.Columns, p.Label}
	}
	return out
}

// RejectedRecord returns a record of the quarantine, as it was edited last, and as it arrived. The two are equal if the record was not
// edited. Errors: [ErrUnknownSink], [ErrUnknownRejected], [ErrRejectedChanged] if it was edited during the call, a [*FailedError],
// [ErrClosed]. Any other error is damage. The record is there and its bytes are not.
func (h SinkHandle) RejectedRecord(ctx context.Context, id string) (r Rejected, record, came []byte, err error) {
	b, sinkID := h.b, h.id
	if ctx.Err() != nil {
		return r, nil, nil, context.Cause(ctx)
	}
	head, num, seq, err := b.rejectHead(sinkID, id)
	if err != nil {
		return r, nil, nil, err
	}
	err = b.readStore(func(db *pebble.DB) (err error) {
		if came, err = pebblestore.Get(db, format.RecordKey(num, seq, 0)); err != nil {
			return err
		}
		if record = came; head.Edit > 0 {
			record, err = pebblestore.Get(db, format.RecordKey(num, seq, head.Edit))
		}
		return err
	})
	switch {
	case err != nil:
		return r, nil, nil, fmt.Errorf("buffer: read the rejected record %s: %w", id, err)
	case int64(len(came)) != head.Came || head.Edit > 0 && int64(len(record)) != head.Edited:
		// It was removed or edited between the two looks, or its bytes are lost.
		again, _, _, e := b.rejectHead(sinkID, id)
		switch {
		case e != nil:
			err = e
		case again.Revision != head.Revision:
			err = ErrRejectedChanged
		default:
			err = pebblestore.Damaged("rejected record %s: %d bytes are stored, and %d of its edit; its head says %d and %d",
				id, len(came), len(record), head.Came, head.Edited)
			b.reportDamage(err)
		}
		return r, nil, nil, err
	}
	return b.rejectedOf(&head, seq), record, came, nil
}

// HasRejected reports whether a record is in the quarantine of a sink. It reads memory alone.
func (h SinkHandle) HasRejected(id string) bool {
	h.b.mu.RLock()
	defer h.b.mu.RUnlock()
	s := h.b.mu.sinks[h.id]
	if s == nil {
		return false
	}
	ok := s.held.find(id) != nil
	return ok
}

// rejectHead reads the head of a record.
func (b *Buffer) rejectHead(sinkID, id string) (head format.Reject, num uint32, seq uint64, err error) {
	b.mu.RLock()
	s := b.mu.sinks[sinkID]
	known := false
	if s != nil {
		if h := s.held.find(id); h != nil {
			known, seq = true, h.seq
		}
	}
	b.mu.RUnlock()
	switch {
	case s == nil:
		return head, 0, 0, fmt.Errorf("%w: %q", ErrUnknownSink, sinkID)
	case !known:
		return head, 0, 0, unknownRejected(sinkID, id)
	}
	err = b.readStore(func(db *pebble.DB) error {
		value, err := pebblestore.Get(db, format.RejectKey(s.num, seq))
		if err == nil && value == nil { // it went meanwhile
			return unknownRejected(sinkID, id)
		}
		if err == nil {
			err = format.Decode(value, &head)
		}
		if err != nil {
			err = fmt.Errorf("buffer: read the rejected record %s: %w", id, err)
		}
		return err
	})
	return head, s.num, seq, err
}

func unknownRejected(sinkID, id string) error {
	return fmt.Errorf("%w: sink %q has no %s", ErrUnknownRejected, sinkID, id)
}

// UpdateRejected replaces the Info of a record, and with data also the record. revision is the [Rejected.Revision] that the caller
// has read. The next one is one above. The record keeps its id, its age and the bytes with which it arrived, until it leaves. An
// earlier edit is deleted. An Info alone may pass the bounds of the quarantine.
//
// Errors: [ErrRejectedChanged], [ErrUnknownRejected], [ErrUnknownSink], an [*OverloadError] when the quarantine, memory or the disk
// has no room for it, a [*FailedError], [ErrClosed], the error of ctx.
func (h SinkHandle) UpdateRejected(ctx context.Context, id string, revision int, info, data []byte) error {
	b, sinkID := h.b, h.id
	head, _, _, err := b.rejectHead(sinkID, id)
	if err != nil {
		return err
	}
	if int(head.Revision) != revision {
		return fmt.Errorf("%w: %s has revision %d", ErrRejectedChanged, id, head.Revision)
	}
	size := int64(len(info) + len(data))
	if err := b.admission.admit(ctx, nil, size, false, false); err != nil {
		return err
	}
	defer b.admission.giveBack(size)
	before := head
	head.Revision++
	head.Info = slices.Clone(info)
	if data != nil {
		data = slices.Clone(data)
		head.Edit, head.Edited = head.Revision, int64(len(data))
	}
	value := format.Encode(&head)
	var refused error
	err = b.withSink(ctx, sinkID, func(t *txn, s *sinkState) {
		h := s.held.find(id)
		growth := head.Size() - before.Size()
		q := &s.rec.Quarantine
		switch {
		case h == nil:
			refused = unknownRejected(sinkID, id)
			return
		case h.revision != before.Revision:
			refused = fmt.Errorf("%w: %s", ErrRejectedChanged, id)
			return
		case data != nil && growth > 0 && s.heldBytes+growth > q.MaxBytes:
			refused = &OverloadError{Resource: "quarantine", Used: s.heldBytes, Limit: q.MaxBytes, RetryAfter: time.Minute}
			return
		}
		seq, last := h.seq, h.edit
		h.revision, h.edit, h.size = head.Revision, head.Edit, head.Size()
		s.heldBytes += growth
		t.freed -= growth
		t.addToBatch(func(batch *pebble.Batch) {
			_ = batch.Set(format.RejectKey(s.num, seq), value, nil) // a plain batch cannot fail
			if data == nil {
				return
			}
			_ = batch.Set(format.RecordKey(s.num, seq, head.Edit), data, nil)
			if last > 0 {
				_ = batch.Delete(format.RecordKey(s.num, seq, last), nil)
			}
		})
	})
	if err != nil {
		return err // the committer may still set refused
	}
	return refused
}

// DiscardRejected permanently deletes records of the quarantine, and returns how many there were. Ids that are not there are passed over,
// so a call may be repeated. Their bytes may stay in files of the store until it compacts them. Errors: [ErrUnknownSink], a [*FailedError],
// [ErrClosed], the error of ctx.
func (h SinkHandle) DiscardRejected(ctx context.Context, ids ...string) (discarded int, err error) {
	n := 0
	err = h.b.withSink(ctx, h.id, func(t *txn, s *sinkState) {
		for _, id := range ids {
			if h := s.held.find(id); h != nil {
				t.removeHeld(s, h, &s.rec.Quarantine.Discarded)
				n++
			}
		}
		if n > 0 {
			t.onDurable(func() {
				// No next: the caller asked for it, and the records are gone.
				h.b.log.Warn("rejected records discarded", "sink", s.id, "records", n)
			})
		}
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// ReplayRow is a rejected record that was mapped. See [DefinedSink.ReplayRejected].
type ReplayRow struct {
	// ID is the record, Revision the [Rejected.Revision] of which the row was made.
	ID       string
	Revision int
	// Row is CSV and ends with "\n".
	Row []byte
}

// ReplayRejected moves records from the quarantine of a sink to its rows. Each row and the removal of its record are one batch, so after a
// crash there is one of the two. at is the time of acceptance of the rows. The move is durable when the call returns.
//
// outcomes has an entry for each row. It is nil, [ErrRejectedChanged], or [ErrUnknownRejected], as when another call has replayed
// the record. A record that is named twice is replayed once. With err nothing was moved, and outcomes is nil. err is an
// [*OverloadError], including when the sink is full, a [*TooLargeError] or [ErrClosed]. With a [*FailedError], or when ctx ends
// during the wait, the outcome is unknown, and the call may be repeated.
func (d *DefinedSink) ReplayRejected(ctx context.Context, at time.Time, rows ...ReplayRow) (outcomes []error, err error) {
	var size int64
	for i := range rows {
		if len(rows[i].Row) == 0 {
			return nil, fmt.Errorf("buffer: replay %s: the row is empty", rows[i].ID)
		}
		size += int64(len(rows[i].Row))
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if err := d.Full(); err != nil {
		return nil, err
	}
	if err := d.b.admission.admit(ctx, nil, size, false, false); err != nil {
		return nil, err
	}
	defer d.b.admission.giveBack(size)
	result := make([]error, len(rows))
	rows = slices.Clone(rows)
	c := &chunk{def: d.def, data: make([]byte, 0, size), first: at.UnixMilli(), last: at.UnixMilli()}
	err = d.b.withSink(ctx, d.ID(), func(t *txn, s *sinkState) {
		c.sink = s
		for i, r := range rows {
			h := s.held.find(r.ID)
			switch {
			case h == nil:
				result[i] = unknownRejected(s.id, r.ID)
				continue
			case int(h.revision) != r.Revision:
				result[i] = fmt.Errorf("%w: %s", ErrRejectedChanged, r.ID)
				continue
			}
			t.removeHeld(s, h, &s.rec.Quarantine.Replayed)
			c.data = append(c.data, r.Row...)
			c.rows++
		}
		if c.rows > 0 {
			c.raw = int64(len(c.data))
			t.freed -= t.addChunk(t.batch, c, payload{encoding: format.None, data: c.data})
		}
	})
	if err != nil {
		return nil, err // the committer may still write the result
	}
	return result, nil
}

// QuarantineStats are the counters of the quarantine of one sink:
//
//	Added = Records + Replayed + Discarded + Expired + Lost
type QuarantineStats struct {
	// On is set while the sink takes rejected records. Bounds are the bounds of its last definition with a quarantine. If there was none, they
	// are zero until the target refuses a row, and then the defaults.
	On     bool
	Bounds QuarantineBounds
	// Records is how many there are now, Bytes their size in the bounds, OldestAt when the oldest was rejected.
	Records, Bytes int64
	OldestAt       time.Time
	// Added counts the records of all time. Lost are the records that the disk did not give back.
	Added, Replayed, Discarded, Expired, Lost int64
}

func (s *sinkState) quarantineStats() QuarantineStats {
	q := &s.rec.Quarantine
	st := QuarantineStats{
		On: q.On, Bounds: QuarantineBounds{q.MaxBytes, q.MaxRecords, q.MaxAge, q.DropOldest, q.HoldFiles}, Records: int64(s.held.len()), Bytes: s.heldBytes,
		Added: q.Added.Rows, Replayed: q.Replayed.Rows, Discarded: q.Discarded.Rows, Expired: q.Expired.Rows, Lost: q.Lost.Rows,
	}
	if s.held.len() > 0 {
		st.OldestAt = format.Time(s.held.oldest().at)
	}
	return st
}

// verifyHeld reads the rejected records of a sink and compares them with the ledger.
func (b *Buffer) verifyHeld(ctx context.Context, l *ledger, differ func(string, ...any)) error {
	q := &l.quarantine
	if q.Added.Rows != q.Left()+int64(len(l.held)) {
		differ("ledger of the quarantine: added %d, but held %d + replayed %d + discarded %d + expired %d + lost %d",
			q.Added.Rows, len(l.held), q.Replayed.Rows, q.Discarded.Rows, q.Expired.Rows, q.Lost.Rows)
	}
	for _, h := range l.held {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		r, _, _, err := b.Sink(l.report.ID).RejectedRecord(ctx, h.id())
		switch {
		case errors.Is(err, ErrUnknownRejected), errors.Is(err, ErrRejectedChanged):
			b.mu.RLock()
			still := false
			if s := b.mu.sinks[l.report.ID]; s != nil {
				now := s.held.find(h.id())
				still = now != nil && now.revision == h.revision
			}
			reopened := b.store.Now().Epoch != l.epoch
			b.mu.RUnlock()
			if reopened {
				return errReopened
			}
			if still {
				differ("rejected record %s: %v", h.id(), err)
			}
		case pebblestore.IsDamage(err):
			differ("rejected record %s: %v", h.id(), err)
		case err != nil:
			return cmp.Or(b.failure(), err)
		case r.Revision == int(h.revision) && r.Size != h.size:
			differ("rejected record %s: %d bytes are stored, the ledger has %d", h.id(), r.Size, h.size)
		default:
			l.report.Quarantined++
		}
	}
	return nil
}
