package forebay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// Ingest maps one record for every enabled sink of a source and stores the rows. It returns when they are on local
// disk, or in memory where all sinks are SyncUnsafe. The result has one entry a sink; sinks do not affect each other.
//
// The error is nil when every sink kept the record, else the join of the [*SinkError]s of the result, or one of
// [ErrUnknownSource], [ErrDisabledSource], [ErrClosed] and that of a ctx that had ended before, with an empty result and
// nothing stored. When ctx ends during the wait the outcome is unknown: a record that is sent again may be stored twice.
// A source without an enabled sink drops the record: the result says so, there is no error, and [Stats] counts it.
//
// The record is not kept: the caller may reuse it and its body when Ingest returns. The caller must not modify the
// result, which may be shared by all records that every sink kept.
func (e *Engine) Ingest(ctx context.Context, sourceID string, rec *mapping.Record) (Result, error) {
	src, err := e.open(ctx, sourceID)
	switch {
	case err != nil:
		return Result{}, err
	case src.combines(rec):
		return e.ingestCombined(ctx, src, rec)
	}
	return e.ingestAlone(ctx, src, false, rec)
}

// ingestAlone is Ingest without other callers.
func (e *Engine) ingestAlone(ctx context.Context, src *source, patient bool, rec *mapping.Record) (Result, error) {
	one, results := [1]*mapping.Record{rec}, [1]Result{}
	if err := e.ingest(ctx, src, nil, patient, one[:], results[:]); err != nil {
		return Result{}, err
	}
	return results[0], results[0].Err(src.def.ID)
}

// IngestBatch is Ingest for many records, with one durable wait for all of them. Results are in the order of recs. The
// error is a [*BatchError], which names each cause once; it is nil when every sink kept every record. A batch of many megabytes is taken in
// portions: when a bound is reached in the middle, the results tell which records were stored.
func (e *Engine) IngestBatch(ctx context.Context, sourceID string, recs []*mapping.Record) ([]Result, error) {
	return e.ingestBatch(ctx, sourceID, nil, false, recs)
}

// ingestBatch is IngestBatch and all its relatives. once is nil for a call without a key; a patient call waits for room.
func (e *Engine) ingestBatch(ctx context.Context, sourceID string, once *Once, patient bool, recs []*mapping.Record) ([]Result, error) {
	src, err := e.open(ctx, sourceID)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(recs))
	if err := e.ingest(ctx, src, once, patient, recs, results); err != nil {
		return nil, err
	}
	return results, batchError(sourceID, results)
}

// portionBytes is how many row bytes a call maps at most before it hands them to the buffer, where they count against the
// bounds. A huge batch goes in several portions, so that what is mapped ahead stays small; so does a large body for many
// sinks, while the rows of other records stay together. A row that is larger goes alone. With a small MaxPendingBytes
// portions are smaller: none may be refused for its size where each of its rows would have been taken.
const portionBytes = 1 << 20

func portionOf(o buffer.Options) int {
	if o.MaxPendingBytes == 0 {
		return portionBytes
	}
	return int(min(portionBytes, o.MaxPendingBytes/4))
}

// scratch is the memory of one call.
type scratch struct {
	data     [][]byte // rows by sink
	n        []int    // number of rows by sink
	marks    []mark   // where those of the current record begin, by sink
	full     []error  // why the sink takes nothing now
	size     int      // bytes of all rows
	whole    bool     // a record whose rows exceed the portion is not taken, see mapRecord
	rows     []buffer.Rows
	portions []portion
	attempt  *attempt // nil for a call without a key
	patient  bool     // the call waits for room
}

// mark is a place in the rows of a sink.
type mark struct{ bytes, rows int }

// portion is what one Append took: the outcomes up to a place, counted over records and then sinks.
type portion struct {
	end    int
	ticket buffer.Ticket
	err    error
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (sc *scratch) reset(sinks int) {
	for len(sc.data) < sinks {
		sc.data = append(sc.data, nil)
		sc.n = append(sc.n, 0)
		sc.marks = append(sc.marks, mark{})
		sc.full = append(sc.full, nil)
	}
	sc.whole, sc.attempt, sc.patient = false, nil, false
	sc.empty()
}

// empty forgets the rows.
func (sc *scratch) empty() {
	for i := range sc.data {
		sc.data[i], sc.n[i] = sc.data[i][:0], 0
	}
	sc.size = 0
}

// release gives the memory to the pool, unless a huge row has made it so large that it should not stay.
func (sc *scratch) release() {
	sc.attempt = nil
	clear(sc.portions)
	sc.portions = sc.portions[:0]
	size := 0
	for _, d := range sc.data {
		size += cap(d)
	}
	if size <= 4*portionBytes {
		scratches.Put(sc)
	}
}

// open returns the source that a call is for, if it takes records now.
func (e *Engine) open(ctx context.Context, sourceID string) (*source, error) {
	if e.closed.Load() {
		return nil, ErrClosed
	}
	src := (*e.sources.Load())[sourceID]
	switch {
	case src == nil:
		return nil, fmt.Errorf("%w: %q", ErrUnknownSource, sourceID)
	case src.def.Disabled:
		return nil, fmt.Errorf("%w: %q", ErrDisabledSource, sourceID)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return src, nil
}

// ingest fills results. Its error is about the whole call; nothing was stored then. once is nil for a call without a key.
func (e *Engine) ingest(
	ctx context.Context, src *source, once *Once, patient bool, recs []*mapping.Record, results []Result,
) error {
	if i := slices.Index(recs, nil); i >= 0 {
		return fmt.Errorf("forebay: record %d is nil", i)
	}
	if len(src.sinks) == 0 {
		src.dropped.Add(int64(len(recs)))
		for i := range results {
			results[i].Dropped = true
		}
		return nil
	}
	attempt, err := e.attempt(ctx, src, once)
	if err != nil {
		return err
	}
	defer attempt.release()
	var one [1]portion // a call of many portions allocates
	return src.settle(ctx, e.take(ctx, src, attempt, patient, recs, results, one[:0]), results)
}

// take maps the records and hands their rows to the buffer, and returns the portions behind those of list. Its memory is
// free again before the caller waits for the disk: with many callers only as much is in use as fits into the caches.
func (e *Engine) take(
	ctx context.Context, src *source, attempt *attempt, patient bool, recs []*mapping.Record, results []Result, list []portion,
) []portion {
	now := time.Now()
	sc := scratches.Get().(*scratch)
	defer sc.release()
	sc.reset(len(src.sinks))
	sc.attempt, sc.patient = attempt, patient
	src.look(sc)
	for i, rec := range recs {
		results[i].Sinks = e.mapRecord(ctx, src, i, rec, now, sc)
		rec.Release()
	}
	e.append(ctx, src, now, sc, len(recs)*len(src.sinks))
	return append(list, sc.portions...)
}

// look notes which sinks take rows now. A patient call waits for those that do not.
func (src *source) look(sc *scratch) {
	for i, s := range src.sinks {
		if sc.full[i] = nil; !sc.patient {
			sc.full[i] = s.handle.Full()
		}
	}
}

// settle waits for the portions and notes in the results which of them failed.
func (src *source) settle(ctx context.Context, portions []portion, results []Result) error {
	begin := 0
	for i := range portions {
		p := &portions[i]
		if p.err == nil && src.wait {
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

// fail marks the outcomes of a portion that are not rejected already.
func (src *source) fail(results []Result, begin, end int, err error) {
	status := Failed
	if tooLarge := (*buffer.TooLargeError)(nil); errors.As(err, &tooLarge) {
		status = Rejected
	}
	for at := begin; at < end; at++ {
		i, k := at/len(src.sinks), at%len(src.sinks)
		if results[i].Sinks[k].Err != nil || results[i].Sinks[k].Replayed {
			continue
		}
		if &results[i].Sinks[0] == &src.kept[0] {
			results[i].Sinks = slices.Clone(src.kept)
		}
		results[i].Sinks[k].Status, results[i].Sinks[k].Err = status, err
		src.sinks[k].count.failed.Add(1)
	}
}

// mapRecord appends the rows of record i, one a sink, and notes who rejected it. A record that no sink rejects costs no
// memory: all such records share src.kept.
//
// Where they exceed a portion, the rows before them are appended, or, with sc.whole, none of the record's are taken and the
// result is nil.
func (e *Engine) mapRecord(ctx context.Context, src *source, i int, rec *mapping.Record, now time.Time, sc *scratch) []SinkResult {
	if rec.Received.IsZero() {
		rec.Received = now
		defer func() { rec.Received = time.Time{} }()
	}
	out, size := src.kept, sc.size
	for k := range src.sinks {
		sc.marks[k] = mark{len(sc.data[k]), sc.n[k]}
	}
	ahead := sc.size > 0 // the rows of other records
	for k, s := range src.sinks {
		if sc.attempt.has(k, i) {
			if &out[0] == &src.kept[0] {
				out = slices.Clone(out)
			}
			out[k].Replayed = true
			continue
		}
		status, err := Failed, sc.full[k]
		if err == nil {
			before := len(sc.data[k])
			status, err = Rejected, e.mapRow(s, rec, &sc.data[k])
			row := sc.data[k][before:]
			if sc.size > 0 && sc.size+len(row) > e.portion {
				if sc.whole {
					sc.withdraw(size, len(src.sinks))
					return nil
				}
				sc.data[k] = sc.data[k][:before]
				if ahead {
					e.appendAhead(ctx, src, now, sc, i*len(src.sinks))
					ahead = false
				}
				if sc.size > 0 && sc.size+len(row) > e.portion {
					e.append(ctx, src, now, sc, i*len(src.sinks)+k)
				}
				sc.data[k] = append(sc.data[k], row...)
			}
			sc.size += len(row)
		}
		if err == nil {
			sc.n[k]++
			sc.attempt.take(k, i)
			continue
		}
		if &out[0] == &src.kept[0] {
			out = slices.Clone(out)
		}
		out[k].Status, out[k].Err = status, err
	}
	if &out[0] != &src.kept[0] {
		src.count(out)
	}
	return out
}

// withdraw takes out the rows of the current record; size is that of those before it.
func (sc *scratch) withdraw(size, sinks int) {
	for k, m := range sc.marks[:sinks] {
		sc.data[k], sc.n[k] = sc.data[k][:m.bytes], m.rows
	}
	sc.size = size
}

// count counts what the sinks did not take of a mapped record.
func (src *source) count(results []SinkResult) {
	for k, r := range results {
		switch r.Status {
		case Rejected:
			src.sinks[k].count.rejected(r.Err)
		case Failed:
			src.sinks[k].count.failed.Add(1)
		}
	}
}

// mapRow appends one row to data; with an error data is as before.
func (e *Engine) mapRow(s *sink, rec *mapping.Record, data *[]byte) error {
	before := len(*data)
	row, err := s.mapper.AppendRow(*data, rec)
	if err != nil {
		return err
	}
	if size := len(row) - before; size > e.opts.MaxRowBytes {
		return &RowTooLargeError{Size: size, Limit: e.opts.MaxRowBytes}
	}
	*data = row
	return nil
}

// rejected counts by the reason.
func (r *rejections) rejected(err error) {
	if tooLarge := (*RowTooLargeError)(nil); errors.As(err, &tooLarge) {
		r.tooLarge.Add(1)
		return
	}
	var m *mapping.Error
	if errors.As(err, &m) && int(m.Reason) < len(r.byReason) {
		r.byReason[m.Reason].Add(1)
		return
	}
	r.byReason[0].Add(1)
}

// append hands the mapped rows to the buffer; end is the place behind the last outcome that they stand for.
func (e *Engine) append(ctx context.Context, src *source, now time.Time, sc *scratch, end int) {
	rows := sc.rows[:0]
	for i, s := range src.sinks {
		if sc.n[i] > 0 {
			rows = append(rows, sc.attempt.rows(buffer.Rows{Sink: s.handle, Data: sc.data[i], Count: sc.n[i]}, i))
		}
	}
	p := portion{end: end}
	if len(rows) > 0 || sc.attempt == nil { // what is all stored needs no room
		p.ticket, p.err = e.hand(ctx, now, rows, sc.patient)
	}
	sc.portions = append(sc.portions, p)
	clear(rows)
	sc.rows = rows[:0]
	sc.empty()
}

// hand gives rows to the buffer.
func (e *Engine) hand(ctx context.Context, now time.Time, rows []buffer.Rows, patient bool) (buffer.Ticket, error) {
	if patient {
		return e.buf.AppendWhenRoom(ctx, now, rows...)
	}
	return e.buf.Append(ctx, now, rows...)
}

// appendAhead hands over the rows of the records before the current one, whose rows stay.
func (e *Engine) appendAhead(ctx context.Context, src *source, now time.Time, sc *scratch, end int) {
	stay, n := make([][]byte, len(src.sinks)), make([]int, len(src.sinks))
	for k, m := range sc.marks[:len(src.sinks)] {
		stay[k], n[k] = sc.data[k][m.bytes:], sc.n[k]-m.rows
		sc.data[k], sc.n[k] = sc.data[k][:m.bytes], m.rows
	}
	if sc.attempt != nil {
		sc.attempt.below = end / len(src.sinks)
		defer func() { sc.attempt.below = math.MaxInt }()
	}
	e.append(ctx, src, now, sc, end)
	for k, rows := range stay {
		sc.data[k], sc.n[k] = append(sc.data[k], rows...), n[k]
		sc.size += len(rows)
	}
}
