package forebay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/callrows"
	"github.com/forebay/forebay/internal/callspans"
	"github.com/forebay/forebay/internal/receipt"
	"github.com/forebay/forebay/mapping"
)

// Intake accepts records for its [Engine], as the methods of the engine do. The calls of [Engine.WaitForRoom] wait for room
// where the methods of the engine fail with a [*buffer.OverloadError]. Room is needed in memory, on disk, and in the share of every sink
// of the source. A program that reads a file, a pipe or a queue then goes as fast as its rows reach the tables, without a retry
// loop. It is safe for concurrent use.
//
// Callers get room in order of arrival. A call waits until there is room or its context ends. Then nothing of it was
// stored, unless it is so large that it goes in portions. Its error wraps the cause of the context and the OverloadError.
// A sink whose table is broken fills its share and holds up all calls for its source, so give ctx a deadline, or disable the
// sink. While it waits, a call keeps its mapped rows in memory, up to a portion of 1 MiB.
//
// A server that handles requests should use the engine and pass its refusal on.
type Intake struct {
	engine  *Engine
	patient bool // calls wait for room
	span    *callspans.Call
}

// WaitForRoom returns the intake whose calls wait for room.
func (e *Engine) WaitForRoom() Intake { return Intake{engine: e, patient: true} }

// traced returns the intake of one call with its span.
func (in Intake) traced(ctx context.Context, sourceID string) (context.Context, Intake) {
	ctx, in.span = in.engine.spans.Begin(ctx, sourceID)
	return ctx, in
}

// Ingest maps one record for every enabled sink of a source and stores the rows. It returns when they are on local
// disk, or in memory where all sinks are SyncUnsafe. The result has one entry a sink. Sinks do not affect each other.
//
// The error is nil when every sink kept the record. Otherwise it joins one [*SinkError] for each sink that did not. With
// [ErrUnknownSource], [ErrDisabledSource], [ErrClosed] and the error of a ctx that had ended before, the result is empty and nothing
// was stored. When ctx ends during the wait the error of the sinks is a [*buffer.UnknownError]. A retry may store the record twice. A source
// without an enabled sink drops the record. The result says so, there is no error, and [Stats] counts it.
//
// The record is not kept, so the caller may reuse it and its body when Ingest returns. The caller must not modify the
// result, which may be shared by all records that every sink kept.
func (e *Engine) Ingest(ctx context.Context, sourceID string, rec *mapping.Record) (Result, error) {
	return Intake{engine: e}.Ingest(ctx, sourceID, rec)
}

// Ingest is [Engine.Ingest] on this intake.
func (in Intake) Ingest(ctx context.Context, sourceID string, rec *mapping.Record) (Result, error) {
	var p Pending
	ctx, in = in.traced(ctx, sourceID)
	if err := in.submit(ctx, sourceID, rec, &p); err != nil {
		in.span.End(spanOfResults(nil, err))
		return Result{}, err
	}
	if in.span == nil {
		return p.wait(ctx)
	}
	end := in.span.Commit()
	res, err := p.wait(ctx)
	end(err)
	in.span.End(spanOfResults([]Result{res}, err))
	return res, err
}

// Submit is Ingest without the wait. It maps the record, takes its rows into memory and returns. [Pending.Wait] then gives
// what Ingest returns. The record may be reused as soon as Submit returns.
//
// It is for callers that have many records in progress at once, such as a consumer of a queue. One goroutine submits a few
// hundred and waits for them in turn. Ingest needs as many goroutines, and putting those to sleep and waking them costs as
// much as everything else. Rows reach the disk in the order in which a goroutine has submitted them. They are there within
// about Options.Buffer.SyncInterval even when no caller waits. Until then such a record is as unsafe as one of a
// SyncUnsafe sink. Records in progress are bounded as for Ingest.
//
// The error is about the whole call, and nothing was stored: [ErrUnknownSource], [ErrDisabledSource], [ErrClosed] or the
// error of a ctx that had ended before. Wait returns the errors of single sinks.
func (e *Engine) Submit(ctx context.Context, sourceID string, rec *mapping.Record) (Pending, error) {
	return Intake{engine: e}.Submit(ctx, sourceID, rec)
}

// Submit is [Engine.Submit] on this intake. It waits for room before it takes the record.
func (in Intake) Submit(ctx context.Context, sourceID string, rec *mapping.Record) (p Pending, err error) {
	ctx, in = in.traced(ctx, sourceID)
	err = in.submit(ctx, sourceID, rec, &p)
	if in.span != nil {
		in.span.End(spanOfResults([]Result{p.results[0]}, err))
	}
	return p, err
}

// submit fills p, which may be on the stack of the caller.
func (in Intake) submit(ctx context.Context, sourceID string, rec *mapping.Record, p *Pending) error {
	src, err := in.engine.open(ctx, sourceID)
	switch {
	case err != nil:
		return err
	case rec == nil:
		return errors.New("forebay: the record is nil: pass one, such as mapping.JSON(body)")
	case len(src.sinks) == 0:
		src.dropped.Add(1)
		p.results[0].Dropped = true
		return nil
	}
	p.src = src
	recs := [1]*mapping.Record{rec}
	if portions := in.take(ctx, src, nil, recs[:], p.results[:], p.first[:0]); len(portions) > 1 {
		p.more = slices.Clone(portions) // and not portions, which would put p on the heap
	}
	return nil
}

// IngestBatch is Ingest for many records, with one durable wait for all of them. Results are in the order of recs. The
// error is a [*BatchError], which names each cause once. It is nil when every sink kept every record. A batch of many
// megabytes is taken in portions. When a bound is reached in the middle, the results tell which records were stored.
func (e *Engine) IngestBatch(ctx context.Context, sourceID string, recs []*mapping.Record) ([]Result, error) {
	return Intake{engine: e}.IngestBatch(ctx, sourceID, recs)
}

// IngestBatch is [Engine.IngestBatch] on this intake. It waits for room for each portion of a large batch.
func (in Intake) IngestBatch(ctx context.Context, sourceID string, recs []*mapping.Record) ([]Result, error) {
	return in.ingest(ctx, sourceID, nil, recs)
}

// IngestOnce is [Engine.IngestBatch] for a call that may be repeated, because its caller did not learn the outcome or some
// sinks have failed. Records that an earlier call with the same key has stored are not stored again. At those sinks the result is
// the result of the first call, with SinkResult.Replayed. All other records are stored now, and records that were rejected are
// rejected again. The records must be the same, in the same order.
//
// The key is stored in one batch with the rows, so the promise holds after a crash, a power cut or an unknown outcome
// ([buffer.FailedError], [buffer.UnknownError]), and in copies of the data directory. It is kept for
// buffer.Tuning.KeyRetention, by default 24 h, within the bounds of MaxKeys and MaxKeyBytes. Concurrent calls with one key
// take turns. A call without a key costs nothing for it.
//
// Errors are the errors of IngestBatch, [ErrOtherContent], and [ErrKeyUnclear] in a cluster.
func (e *Engine) IngestOnce(ctx context.Context, sourceID string, once Once, recs []*mapping.Record) ([]Result, error) {
	return Intake{engine: e}.IngestOnce(ctx, sourceID, once, recs)
}

// IngestOnce is [Engine.IngestOnce] on this intake.
func (in Intake) IngestOnce(ctx context.Context, sourceID string, once Once, recs []*mapping.Record) ([]Result, error) {
	return in.ingest(ctx, sourceID, &once, recs)
}

// ingest is IngestBatch and, with a key, IngestOnce.
func (in Intake) ingest(ctx context.Context, sourceID string, once *Once, recs []*mapping.Record) ([]Result, error) {
	ctx, in = in.traced(ctx, sourceID)
	results, err := in.ingestAll(ctx, sourceID, once, recs)
	if in.span != nil {
		in.span.End(spanOfResults(results, err))
	}
	return results, err
}

func (in Intake) ingestAll(ctx context.Context, sourceID string, once *Once, recs []*mapping.Record) ([]Result, error) {
	src, err := in.engine.open(ctx, sourceID)
	if err != nil {
		return nil, err
	}
	if i := slices.Index(recs, nil); i >= 0 {
		return nil, fmt.Errorf("forebay: record %d is nil: pass one, such as mapping.JSON(body)", i)
	}
	results := make([]Result, len(recs))
	if len(src.sinks) == 0 {
		src.dropped.Add(int64(len(recs)))
		for i := range results {
			results[i].Dropped = true
		}
		return results, nil
	}
	attempt, err := in.engine.attempt(ctx, src, once)
	if err != nil {
		return nil, err
	}
	defer attempt.Release()
	portions := in.take(ctx, src, attempt, recs, results, nil)
	end := in.span.Commit()
	err = src.await(ctx, portions, results)
	end(err)
	if err != nil {
		return nil, err
	}
	return results, batchError(sourceID, results)
}

// take maps the records, hands their rows to the buffer and appends the portions to list. The memory of the call is free
// again before the caller waits for the disk, so with many callers only as much is in use as fits into the caches.
func (in Intake) take(
	ctx context.Context, src *source, attempt *receipt.Attempt, recs []*mapping.Record, results []Result, list []portion,
) []portion {
	c := in.begin(src, attempt, false, len(recs) > 16 || len(recs) > 0 && len(recs[0].Body) > callrows.Large)
	defer c.release()
	c.inherit(ctx)
	for i, rec := range recs {
		results[i].Sinks = c.add(ctx, rec)
	}
	c.finish(ctx)
	return append(list, c.portions...)
}

// IngestAtomic maps the records of a batch for every enabled sink of a source that takes its signal, and stores the rows
// of all sinks together, with one durable wait. The result tells of records that could not be mapped. They do not hold
// up the others.
//
// With an error nothing was stored. The error is a [*buffer.OverloadError] when memory, the disk or the share of one sink is
// full, [ErrUnknownSource], [ErrDisabledSource], [ErrClosed], or the error of a ctx that had ended before. So a caller can
// send the batch again, and no sink has it twice. There are two exceptions:
//
//   - With a [*buffer.FailedError] or a [*buffer.FencedError] the outcome is unknown. The same holds for a [*buffer.UnknownError],
//     because ctx ended during the wait.
//   - Rows above 16 MiB, or a quarter of buffer.Tuning.MaxPendingBytes, go in portions. The later portions wait for room until
//     ctx ends, or for AdmissionWait if such batches take too much memory. If a portion fails, the earlier portions may be stored.
//     The error is then a [*buffer.UnknownError] with the cause.
//
// With Batch.Once these two leave nothing doubled either if the batch is repeated with its key.
//
// A batch is given up between two records when ctx ends. The records are not kept.
func (e *Engine) IngestAtomic(ctx context.Context, sourceID string, b Batch) (BatchResult, error) {
	return Intake{engine: e}.IngestAtomic(ctx, sourceID, b)
}

// IngestAtomic is [Engine.IngestAtomic] on this intake.
func (in Intake) IngestAtomic(ctx context.Context, sourceID string, b Batch) (BatchResult, error) {
	ctx, in = in.traced(ctx, sourceID)
	src, err := in.engine.open(ctx, sourceID)
	if err != nil {
		in.span.End(spanOfBatch(BatchResult{}, nil, err))
		return BatchResult{}, err
	}
	res, err := in.ingestAtomic(ctx, src, b)
	if in.span != nil {
		in.span.End(spanOfBatch(res, src.forSignal(b.Signal), err))
	}
	return res, err
}

func (in Intake) ingestAtomic(ctx context.Context, src *source, b Batch) (BatchResult, error) {
	if b.Records == nil {
		b.Records = func(func(*mapping.Record) bool) {}
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
	attempt, err := in.engine.attempt(ctx, src, once)
	if err != nil {
		return BatchResult{}, err
	}
	defer attempt.Release()
	portions, err := in.takeAtomic(ctx, src, attempt, b, &res)
	end := in.span.Commit()
	for i := range portions {
		if err == nil && (src.wait || portions[i].aside) {
			err = portions[i].ticket.Wait(ctx)
		}
	}
	end(err)
	if err != nil {
		src.countFailed(res.Records)
		return BatchResult{}, outcomeOf(err, portions)
	}
	return res, nil
}

// outcomeOf marks the error of a batch of which portions may be stored.
func outcomeOf(err error, portions []portion) error {
	if _, marked := errors.AsType[*buffer.UnknownError](err); marked {
		return err
	}
	for i := range portions {
		if portions[i].err == nil {
			return &buffer.UnknownError{Err: err}
		}
	}
	return err
}

// takeAtomic is take for a batch that ends with its first error. The records after it are counted and not mapped.
func (in Intake) takeAtomic(ctx context.Context, src *source, attempt *receipt.Attempt, b Batch, res *BatchResult) ([]portion, error) {
	c := in.begin(src, attempt, true, true)
	defer c.release()
	c.signal = b.Signal
	c.inherit(ctx)
	err := c.noCapacity()
	for rec := range b.Records {
		if err == nil && ctx.Err() != nil { // a few bytes can be rows that take minutes, because each has a copy of the resource
			err = context.Cause(ctx)
		}
		if err == nil && rec == nil {
			err = fmt.Errorf("forebay: record %d is nil: pass one, such as mapping.JSON(body)", res.Records)
		}
		if err == nil {
			err = res.add(src, c.add(ctx, rec))
		}
		if err == nil {
			err = c.err
		}
		res.Records++
	}
	if err == nil {
		c.finish(ctx)
		err = c.err
	}
	return slices.Clone(c.portions), err
}
