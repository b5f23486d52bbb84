package forebay

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// Signal is a kind of telemetry. The values are the words of the Stream API.
type Signal string

// The signals of OpenTelemetry that a source of type OTLP takes.
const (
	SignalLogs    Signal = "logs"
	SignalMetrics Signal = "metrics"
	SignalTraces  Signal = "traces"
)

var allSignals = []Signal{SignalLogs, SignalMetrics, SignalTraces}

// Batch is records that are stored together, see [Engine.IngestAtomic].
type Batch struct {
	// Signal leaves out the sinks whose AllowedSignals do not have it. Empty: every enabled sink takes the batch.
	Signal Signal
	// Records are asked for one after the other, once. A record is read before the next is asked for, so one record may
	// serve for all of them.
	Records iter.Seq[*mapping.Record]
	// Once makes the batch one that can be repeated, as [Engine.IngestOnce] does. Default: it has no key.
	Once Once
}

// BatchResult is the outcome of a batch that was taken.
type BatchResult struct {
	// Records is the number of records in the batch.
	Records int
	// Sinks is the number of sinks that the batch was for. With zero the records were dropped; [Stats] counts them.
	Sinks int
	// Rejected is the number of records that at least one sink can never store as they are. The other sinks have them.
	Rejected int
	// First is the first rejection, nil if there is none, and FirstRecord the place of its record, from 0.
	First       *SinkError
	FirstRecord int
	// Replayed is the number of records that every sink has from an earlier call with the same key.
	Replayed int
}

// batchBytes is how many row bytes a batch may have to be taken or refused as a whole. It bounds what one call maps ahead
// of the buffer. With a small MaxPendingBytes it is less, as it is for portionOf: a batch that the buffer can never take as a whole
// would be refused for good.
const batchBytes = 16 << 20

func togetherOf(o buffer.Options) int {
	if o.MaxPendingBytes == 0 {
		return batchBytes
	}
	return int(min(batchBytes, o.MaxPendingBytes/4))
}

// IngestAtomic maps the records of a batch for every enabled sink of a source that takes its signal, and stores the rows
// of all sinks together, with one durable wait. The result tells of records that could not be mapped; they do not hold
// up the others.
//
// With an error nothing was stored: a [*buffer.OverloadError] when memory, the disk or the share of one sink is full,
// [ErrUnknownSource], [ErrDisabledSource], [ErrClosed], or that of a ctx that had ended before. So a caller can send the
// batch again, and no sink has it twice. There are two exceptions: with a [*buffer.FailedError], or when ctx ends during
// the wait, the outcome is unknown; and rows above 16 MiB, or a quarter of buffer.Options.MaxPendingBytes,
// go in portions, of which the later ones wait for room until
// ctx ends: with an error the earlier ones may be stored. A batch is given up between two records when ctx ends.
//
// With Batch.Once these two leave nothing doubled either: repeat the batch with its key.
//
// The records are not kept.
func (e *Engine) IngestAtomic(ctx context.Context, sourceID string, b Batch) (BatchResult, error) {
	return e.ingestAtomic(ctx, sourceID, false, b)
}

func (e *Engine) ingestAtomic(ctx context.Context, sourceID string, patient bool, b Batch) (BatchResult, error) {
	src, err := e.open(ctx, sourceID)
	if err != nil {
		return BatchResult{}, err
	}
	src = src.forSignal(b.Signal)
	res := BatchResult{Sinks: len(src.sinks)}
	if res.Sinks == 0 {
		for range b.Records {
			res.Records++
		}
		src.dropped.Add(int64(res.Records))
		return res, nil
	}
	var once *Once
	if b.Once.Key != "" {
		once = &b.Once
	}
	attempt, err := e.attempt(ctx, src, once)
	if err != nil {
		return BatchResult{}, err
	}
	defer attempt.release()
	sc := scratches.Get().(*scratch)
	defer sc.release()
	sc.reset(len(src.sinks))
	sc.attempt, sc.patient = attempt, patient
	src.look(sc)
	for k, full := range sc.full[:len(src.sinks)] {
		if full != nil && !attempt.knows(k) {
			for range b.Records {
				res.Records++
			}
			src.countFailed(res.Records)
			return BatchResult{}, full
		}
	}
	now := time.Now()
	for rec := range b.Records {
		if err == nil && ctx.Err() != nil { // a few bytes can be rows that take minutes: each has a copy of the resource
			err = context.Cause(ctx)
		}
		if err == nil {
			err = e.mapAtomic(src, sourceID, rec, now, sc, &res)
		}
		res.Records++
		if err == nil && sc.size >= e.together {
			err = e.appendAtomic(ctx, src, now, sc)
		}
	}
	if err == nil {
		err = e.appendAtomic(ctx, src, now, sc)
	}
	for i := range sc.portions {
		if err == nil && src.wait {
			err = sc.portions[i].ticket.Wait(ctx)
		}
	}
	if err != nil {
		src.countFailed(res.Records)
		return BatchResult{}, err
	}
	return res, nil
}

// mapAtomic appends the rows of one record, one a sink, and notes who rejected it. Its error says that a sink is full.
func (e *Engine) mapAtomic(
	src *source, sourceID string, rec *mapping.Record, now time.Time, sc *scratch, res *BatchResult,
) (full error) {
	unset := rec.Received.IsZero()
	if unset {
		rec.Received = now
	}
	rejected, replayed := false, 0
	for k, s := range src.sinks {
		if sc.attempt.has(k, res.Records) {
			replayed++
			continue
		}
		if full = cmp.Or(full, sc.full[k]); full != nil {
			continue
		}
		before := len(sc.data[k])
		if err := e.mapRow(s, rec, &sc.data[k]); err != nil {
			rejected = true
			s.count.rejected(err)
			if res.First == nil {
				res.First = &SinkError{Source: sourceID, Sink: s.id, Status: Rejected, Err: err}
				res.FirstRecord = res.Records
			}
			continue
		}
		sc.n[k]++
		sc.attempt.take(k, res.Records)
		sc.size += len(sc.data[k]) - before
	}
	if rejected {
		res.Rejected++
	}
	if replayed == len(src.sinks) {
		res.Replayed++
	}
	if unset {
		rec.Received = time.Time{}
	}
	rec.Release()
	return full
}

// appendAtomic hands the mapped rows to the buffer. If a portion of the batch is there already, it waits for room.
func (e *Engine) appendAtomic(ctx context.Context, src *source, now time.Time, sc *scratch) error {
	if sc.size == 0 {
		return nil
	}
	rows := sc.rows[:0]
	for i, s := range src.sinks {
		if sc.n[i] > 0 {
			rows = append(rows, sc.attempt.rows(buffer.Rows{Sink: s.handle, Data: sc.data[i], Count: sc.n[i]}, i))
		}
	}
	defer func() {
		clear(rows)
		sc.rows = rows[:0]
		sc.empty()
	}()
	ticket, err := e.hand(ctx, now, rows, sc.patient || len(sc.portions) > 0)
	if err == nil {
		sc.portions = append(sc.portions, portion{ticket: ticket})
	}
	return err
}

// countFailed counts records that were not stored at any sink.
func (src *source) countFailed(records int) {
	for _, s := range src.sinks {
		s.count.failed.Add(int64(records))
	}
}

// takes reports whether a sink takes a signal.
func (s *Sink) takes(signal Signal) bool {
	return signal == "" || len(s.AllowedSignals) == 0 || slices.Contains(s.AllowedSignals, signal)
}

// forSignal returns the source as a batch of a signal sees it.
func (src *source) forSignal(signal Signal) *source {
	if view, ok := src.views[signal]; ok {
		return view
	}
	return src
}

// makeViews prepares forSignal, for the signals that not every sink takes.
func (src *source) makeViews() {
	for _, signal := range allSignals {
		view := &source{def: src.def, dropped: src.dropped}
		for i, s := range src.sinks {
			at := slices.IndexFunc(src.def.Sinks, func(d Sink) bool { return d.ID == s.id })
			if src.def.Sinks[at].takes(signal) {
				view.sinks = append(view.sinks, s)
				view.kept = append(view.kept, src.kept[i])
				view.wait = view.wait || s.sync != SyncUnsafe
			}
		}
		if len(view.sinks) < len(src.sinks) {
			if src.views == nil {
				src.views = make(map[Signal]*source)
			}
			src.views[signal] = view
		}
	}
}
