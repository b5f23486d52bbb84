package forebay

import (
	"context"
	"errors"
	"slices"

	"github.com/forebay/forebay/mapping"
)

// Pending is a record that is in memory, on its way to the disk. It is a value of the caller's; its zero value stands for
// no record.
type Pending struct {
	src    *source
	result Result
	first  portion
	more   []portion // all of them, when the rows went in several
}

// Submit is Ingest without the wait: it maps the record, takes its rows into memory and returns. [Pending.Wait] then gives
// what Ingest returns. The record may be reused as soon as Submit returns.
//
// It is for callers that have many records under way at once, such as a consumer of a queue: one goroutine submits a few
// hundred and waits for them in turn, where Ingest needs as many goroutines, and to put those to sleep and to wake them
// costs as much as all the rest. Rows reach the disk in the order in which a goroutine has submitted them. They are
// there within about Options.Buffer.SyncInterval also when nobody waits; a record that nobody waits for is as unsafe
// until then as one of a SyncUnsafe sink. What is under way is bounded as for Ingest.
//
// The error is about the whole call, and nothing was stored: [ErrUnknownSource], [ErrDisabledSource], [ErrClosed] or that
// of a ctx that had ended before. What a single sink has to say comes with Wait.
func (e *Engine) Submit(ctx context.Context, sourceID string, rec *mapping.Record) (Pending, error) {
	return e.submit(ctx, sourceID, false, rec)
}

func (e *Engine) submit(ctx context.Context, sourceID string, patient bool, rec *mapping.Record) (Pending, error) {
	src, err := e.open(ctx, sourceID)
	if err != nil {
		return Pending{}, err
	}
	if rec == nil {
		return Pending{}, errors.New("forebay: the record is nil")
	}
	if len(src.sinks) == 0 {
		src.dropped.Add(1)
		return Pending{result: Result{Dropped: true}}, nil
	}
	recs := [1]*mapping.Record{rec}
	var results [1]Result
	var first [1]portion
	list := e.take(ctx, src, nil, patient, recs[:], results[:], first[:0])
	p := Pending{src: src, result: results[0], first: list[0]}
	if len(list) > 1 {
		p.more = slices.Clone(list) // and not list, which would put first on the heap
	}
	return p, nil
}

// Wait returns when the rows of the record are on local disk, or at once where all sinks are SyncUnsafe, with the result
// and the error of [Engine.Ingest]. Call it once for each record that must be acknowledged.
func (p Pending) Wait(ctx context.Context) (Result, error) {
	if p.src == nil {
		return p.result, nil
	}
	first := [1]portion{p.first}
	portions := first[:]
	if p.more != nil {
		portions = slices.Clone(p.more)
	}
	results := [1]Result{p.result}
	if err := p.src.settle(ctx, portions, results[:]); err != nil {
		return Result{}, err
	}
	return results[0], results[0].Err(p.src.def.ID)
}
