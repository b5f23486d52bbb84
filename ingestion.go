package forebay

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/callrows"
	"github.com/forebay/forebay/internal/callspans"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/maproom"
	"github.com/forebay/forebay/internal/receipt"
	"github.com/forebay/forebay/internal/tracecontext"
	"github.com/forebay/forebay/mapping"
)

// An ingestion is one call that brings records. Every way to bring records goes through it.
//
//	begin ─▶ add, once for each record ─▶ finish ─▶ wait for the portions
//
// It is for one source, with the sinks that take the call. Its rows go to the buffer in portions. A portion is stored as a
// whole or not at all, and its ticket tells which. A call that is
//
//   - atomic stores nothing after its first error, and its portions are large (see batchBytes). Otherwise sinks and portions
//     are independent, and each record has its own outcomes.
//   - an attempt has a key. Rows that earlier attempts have stored are left out, and each portion carries receipts.
//   - patient waits for room. Otherwise it is refused at a bound.
//
// Before it maps a record, a call reserves memory in the room that all calls share. See [maproom.Room].
//
// Only one goroutine may use a call. Its memory is pooled, so a record that every sink takes costs no allocation.
type ingestion struct {
	src             *source
	buf             *buffer.Buffer
	room            *maproom.Room
	reserve         maproom.Reserve
	attempt         *receipt.Attempt // nil for a call without a key
	span            *callspans.Call
	atomic, patient bool
	limit, later    int // most bytes of the next portion, and of the later portions
	maxRow          int
	signal          Signal
	header          http.Header // of records without headers, see inherit
	now             time.Time

	body    int           // bytes of the body of the current record
	records int           // how many were added before the current one
	full    []error       // by sink, why it takes nothing now
	rows    callrows.Rows // that the buffer does not have yet. The marks are where the rows of the current record begin
	list    []buffer.Rows // the memory of a portion
	raw     kept.Encoder  // of the archive

	portions []portion
	err      error // the error of the first portion that failed
}

// portion is what one Append took, the outcomes up to a place, counted over records and then sinks.
type portion struct {
	end    int
	ticket buffer.Ticket
	err    error
	// aside is set when records of it are for a quarantine. Then it is waited for whatever the sinks say.
	aside bool
}

const (
	// portionBytes is how many row bytes a call maps at most before it hands them to the buffer, where they count against
	// the bounds. So the rows that a huge batch, or a large body for many sinks, maps ahead stay small. The rows of one
	// record stay together where they fit. A larger row is handed over alone.
	portionBytes = 1 << 20
	// batchBytes is the same for an atomic call. Up to here it is taken or refused as a whole.
	batchBytes = 16 << 20
)

// portionOf lowers a size where MaxPendingBytes is small, because no portion may be refused for its size where each of its rows
// would have been taken.
func portionOf(most int, t buffer.Tuning) int {
	return int(min(int64(most), t.MaxPendingBytes/4))
}

const (
	// smallMemory is the most memory of an idle ingestion that serves any call. There are as many as callers were at work at once.
	smallMemory = 64 << 10
	// largeMemory is the most memory of an idle ingestion. It serves large calls.
	largeMemory = 4 * portionBytes
)

// Idle ingestions. A large one would otherwise serve a small record, and each of a thousand callers would get a large one in the end.
var smallIdle, largeIdle sync.Pool

// idleIngestion takes an idle ingestion out of its pool.
func idleIngestion(large bool) *ingestion {
	if large {
		if c, ok := largeIdle.Get().(*ingestion); ok {
			return c
		}
	}
	if c, ok := smallIdle.Get().(*ingestion); ok {
		return c
	}
	return new(ingestion)
}

// keepIdle takes an ingestion back.
func keepIdle(c *ingestion) {
	switch {
	case c.rows.Memory() <= smallMemory:
		smallIdle.Put(c)
	case c.rows.Memory() <= largeMemory:
		largeIdle.Put(c)
	}
}

// begin starts a call. large says that it may map many rows or large ones. The caller releases it.
func (in Intake) begin(src *source, attempt *receipt.Attempt, atomic, large bool) *ingestion {
	e, c := in.engine, idleIngestion(large)
	c.room = e.room
	c.src, c.buf, c.attempt, c.span, c.atomic, c.patient = src, e.buf, attempt, in.span, atomic, in.patient
	c.signal = ""
	c.limit, c.later, c.maxRow, c.now = e.portion, e.portion, e.opts.MaxRowBytes, time.Now()
	if atomic {
		c.limit = e.batch
	}
	c.rows.Fit(len(src.sinks))
	for len(c.full) < len(src.sinks) {
		c.full = append(c.full, nil)
	}
	for k, s := range src.sinks {
		c.full[k] = c.checkCapacity(s)
	}
	return c
}

// inherit gives records without headers the trace context of the caller, if the source wants to have it with its records. Records from HTTP
// requests have their own.
func (c *ingestion) inherit(ctx context.Context) {
	if !c.src.redactor.NamesTrace() {
		return
	}
	if caller := c.span.Caller(ctx); caller.IsValid() {
		c.header = tracecontext.Header(caller)
	}
}

// checkCapacity returns why a sink accepts no rows now. A patient call waits for the sinks that do not.
func (c *ingestion) checkCapacity(s *sink) error {
	if c.patient {
		return nil
	}
	return s.handle.Full()
}

// noCapacity is the error of a sink that can take nothing and, as far as receipts tell, needs something.
func (c *ingestion) noCapacity() error {
	for k, full := range c.full[:len(c.src.sinks)] {
		if full != nil && !c.attempt.Knows(k) {
			return full
		}
	}
	return nil
}

// release gives the memory back, unless it is so much that it should not stay.
func (c *ingestion) release() {
	c.room.Release(&c.reserve)
	c.rows.Reset()
	clear(c.full)
	// Old rows and tickets stay after the ends of their lists because clearing them for each record costs more than they hold.
	c.span, c.header = nil, nil
	c.src, c.attempt, c.err, c.records, c.portions = nil, nil, nil, 0, c.portions[:0]
	c.room = nil
	keepIdle(c)
}

// reserveFor reserves the memory that the call may use while it maps the current record. The parsed body takes about twice as much as the body,
// and a row is seldom larger than the body.
func (c *ingestion) reserveFor(ctx context.Context) error {
	need := int64(max(c.rows.Memory(), c.rows.Size()+min(c.limit, c.body*len(c.src.sinks))) + 4*c.body)
	if need < c.reserve.Held() {
		return nil
	}
	c.span.Waits()
	defer c.span.WaitsNoMore()
	return c.room.Grow(ctx, &c.reserve, need+1, c.patient || c.isRest())
}

// add maps a record for every sink and hands full portions to the buffer. A record that every sink takes has the outcomes
// src.allStored, which all such records share.
func (c *ingestion) add(ctx context.Context, rec *mapping.Record) []SinkResult {
	bare := rec.Header == nil && c.header != nil
	if bare {
		rec.Header = c.header
	}
	unset := rec.Received.IsZero()
	if unset {
		rec.Received = c.now
	}
	c.rows.Mark(len(c.src.sinks))
	c.body = len(rec.Body)
	crowded := c.reserveFor(ctx)
	out := c.src.allStored
	for k, s := range c.src.sinks {
		status, err := Failed, c.full[k]
		if err == nil {
			err = crowded
		}
		if err == nil && c.atomic { // a portion was refused in the middle of this record
			err = c.err
		}
		switch {
		case c.attempt.Has(k, c.records):
			out = c.src.own(out)
			if out[k].Replayed = true; c.attempt.HasAside(k, c.records) {
				out[k].Status = Quarantined
			}
			continue
		case err == nil:
			status, err = c.mapRow(ctx, k, rec)
		case !c.atomic:
			s.count.Fail(1)
		}
		if err != nil {
			out = c.src.own(out)
			out[k].Status, out[k].Err = status, err
		}
	}
	if unset {
		rec.Received = time.Time{}
	}
	if bare {
		rec.Header = nil
	}
	rec.Release()
	c.records++
	return out
}

// mapRow appends the row of a record for sink k. Its error is a rejection, which is counted. The status says what becomes of the record.
func (c *ingestion) mapRow(ctx context.Context, k int, rec *mapping.Record) (Status, error) {
	s := c.src.sinks[k]
	data, limit, err := c.rows.Next(k, len(rec.Body)), c.maxRow, error(nil)
	if s.archive {
		data, err = c.raw.AppendRow(data, rec, string(c.signal), c.src.redactor)
		limit *= kept.RowGrowth
	} else {
		data, err = s.mapper.AppendRow(data, rec)
	}
	size := c.rows.Mapped(k, data)
	if err == nil && size > limit {
		err = &RowTooLargeError{Size: size, Limit: limit}
	}
	s.shadow.Offer(rec, size, err)
	if err != nil {
		s.count.Reject(err)
		if s.reject != nil {
			s.reject(err)
		}
		if !s.keeps {
			return Rejected, err
		}
		return c.setAside(ctx, k, rec, err)
	}
	c.rows.Keep(k, size)
	c.attempt.Take(k, c.records)
	c.bound(ctx, k)
	return 0, nil
}

// setAside takes a record for the quarantine of sink k.
func (c *ingestion) setAside(ctx context.Context, k int, rec *mapping.Record, cause error) (Status, error) {
	s := c.src.sinks[k]
	reject, err := kept.Reject(rec, cause, s.name, c.src.redactor)
	if err != nil {
		return Rejected, cause
	}
	records, bytes := c.rows.Rejects(k)
	switch err := s.handle.QuarantineFull(len(reject.Info)+len(reject.Data), records, bytes); {
	case err == nil:
	case isOverload(err):
		return Failed, err
	default: // it is too large, or the sink no longer has a quarantine
		return Rejected, cause
	}
	c.rows.Reject(k, reject)
	c.attempt.TakeAside(k, c.records)
	c.bound(ctx, k)
	return Quarantined, cause
}

func isOverload(err error) bool {
	_, ok := errors.AsType[*buffer.OverloadError](err)
	return ok
}

// bound hands over a full portion after something of the current record was taken for sink k.
func (c *ingestion) bound(ctx context.Context, k int) {
	if c.rows.Size() <= c.limit {
		return
	}
	rest, begin := c.isRest(), c.records*len(c.src.sinks)
	c.handOver(ctx, begin)               // the records before this one
	if rest || c.rows.Size() > c.limit { // of this record, the rows of the sinks before
		c.rows.Mark(k)
		c.handOver(ctx, begin+k)
	}
	if !rest {
		return
	}
	// The batch may wait for room and then for memory. It has no rows in memory while it waits for memory, which other calls have reserved.
	c.rows.Mark(k + 1)
	c.handOver(ctx, begin+k+1)
	c.rows.DropSpare()
	clear(c.list[:cap(c.list)]) // old rows are there
	if err := c.reserveFor(ctx); err != nil && c.err == nil {
		c.err = err
	}
}

// finish hands over the remaining rows.
func (c *ingestion) finish(ctx context.Context) {
	c.rows.Mark(len(c.src.sinks))
	c.handOver(ctx, c.records*len(c.src.sinks))
}

// handOver gives the rows before the marks to the buffer, as one portion. The place after the last outcome that they
// stand for is end. The rows after the marks stay.
func (c *ingestion) handOver(ctx context.Context, end int) {
	sinks := c.src.sinks
	rows := c.list[:0]
	aside := false
	for k, s := range sinks {
		if of, ok := c.rows.Marked(k); ok {
			of.Sink = s.handle
			rows = append(rows, of)
			aside = aside || len(of.Rejects) > 0
			c.attempt.AddTo(&rows[len(rows)-1], k, (end+len(sinks)-1)/len(sinks))
		}
	}
	if len(rows) == 0 || c.atomic && c.err != nil {
		return
	}
	p := portion{end: end, aside: aside}
	c.span.Waits()
	switch parked := int64(c.rows.Memory()); {
	case c.patient:
		c.room.Release(&c.reserve) // else calls that are not patient would wait for this one
		p.ticket, p.err = c.buf.AppendWhenRoom(ctx, c.now, rows...)
	case c.isRest() && c.room.Park(parked):
		c.room.Release(&c.reserve)
		p.ticket, p.err = c.buf.AppendWhenRoom(ctx, c.now, rows...)
		c.room.Unpark(parked)
	default:
		if p.ticket, p.err = c.buf.Append(ctx, c.now, rows...); p.err != nil {
			c.room.NoteRefused(p.err)
		}
	}
	c.span.WaitsNoMore()
	if c.span != nil && p.err == nil {
		for i := range rows {
			c.span.Took(rows[i].Sink.ID(), c.now)
		}
	}
	c.limit = c.later
	if c.err == nil {
		c.err = p.err
	}
	c.portions = append(c.portions, p)
	if aside {
		clear(rows) // the bodies of rejected records would stay for long
	}
	c.list = rows[:0]
	for k := range sinks {
		c.rows.Drop(k)
	}
}

// isRest reports whether the rest of a batch comes now. It waits for room where the first portion has it.
func (c *ingestion) isRest() bool { return c.atomic && len(c.portions) > 0 }

// await returns when the portions are on disk, and notes in the results which of them failed. Its error is about the
// whole call. Nothing was stored then.
func (src *source) await(ctx context.Context, portions []portion, results []Result) error {
	begin := 0
	for i := range portions {
		p := &portions[i]
		if p.err == nil && (src.wait || p.aside) {
			p.err = p.ticket.Wait(ctx)
		}
		if p.err != nil {
			if len(portions) == 1 && errors.Is(p.err, ErrClosed) {
				return ErrClosed
			}
			src.fail(results, begin, p.end, p.err)
		}
		begin = p.end
	}
	return nil
}

// fail notes an error in the outcomes of a portion, except for the outcomes without a row in it.
func (src *source) fail(results []Result, begin, end int, err error) {
	status := Failed
	if tooLarge := (*buffer.TooLargeError)(nil); errors.As(err, &tooLarge) {
		status = Rejected
	}
	for at := begin; at < end; at++ {
		i, k := at/len(src.sinks), at%len(src.sinks)
		if results[i].Sinks[k].lost() || results[i].Sinks[k].Replayed {
			continue
		}
		results[i].Sinks = src.own(results[i].Sinks)
		results[i].Sinks[k].Status, results[i].Sinks[k].Err = status, err
		src.sinks[k].count.Fail(1)
	}
}
