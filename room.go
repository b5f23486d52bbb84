package forebay

import (
	"context"
	"errors"

	"github.com/forebay/forebay/mapping"
)

// Intake takes records as its [Engine] does, except that its calls wait for room where those of the engine fail with a
// [*buffer.OverloadError]: for memory, for the disk, and for the share of every sink of the source. So a program that reads
// a file, a pipe or a queue goes as fast as its rows reach the tables, without a loop of its own. It is safe for concurrent
// use.
//
// Callers get room in the order in which they came. A call waits until there is room or its context ends; then nothing of it
// was stored, unless it is so large that it goes in portions, and its error wraps the cause of the context and the
// OverloadError. A sink whose table is broken fills its share and holds up all calls for its source: give ctx a deadline, or
// disable the sink. While it waits a call keeps its mapped rows in memory, up to a portion of 1 MiB.
//
// A server that answers requests should rather use the engine, and pass its refusal on.
type Intake struct{ e *Engine }

// WaitForRoom returns the intake of the engine whose calls wait for room.
func (e *Engine) WaitForRoom() Intake { return Intake{e} }

// Ingest is [Engine.Ingest] that waits for room.
func (in Intake) Ingest(ctx context.Context, sourceID string, rec *mapping.Record) (Result, error) {
	src, err := in.e.open(ctx, sourceID)
	switch {
	case err != nil:
		return Result{}, err
	case rec == nil:
		return Result{}, errors.New("forebay: the record is nil")
	}
	return in.e.ingestAlone(ctx, src, true, rec)
}

// IngestBatch is [Engine.IngestBatch] that waits for room, for each portion of a large batch.
func (in Intake) IngestBatch(ctx context.Context, sourceID string, recs []*mapping.Record) ([]Result, error) {
	return in.e.ingestBatch(ctx, sourceID, nil, true, recs)
}

// IngestOnce is [Engine.IngestOnce] that waits for room.
func (in Intake) IngestOnce(ctx context.Context, sourceID string, once Once, recs []*mapping.Record) ([]Result, error) {
	return in.e.ingestBatch(ctx, sourceID, &once, true, recs)
}

// IngestAtomic is [Engine.IngestAtomic] that waits for room.
func (in Intake) IngestAtomic(ctx context.Context, sourceID string, b Batch) (BatchResult, error) {
	return in.e.ingestAtomic(ctx, sourceID, true, b)
}

// Submit is [Engine.Submit] that waits for room before it takes the record.
func (in Intake) Submit(ctx context.Context, sourceID string, rec *mapping.Record) (Pending, error) {
	return in.e.submit(ctx, sourceID, true, rec)
}
