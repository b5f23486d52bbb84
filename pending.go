package forebay

import (
	"context"
	"slices"
)

// Pending is a record that is in memory, on its way to the disk: see [Engine.Submit]. Its zero value stands for no record.
type Pending struct {
	src     *source
	results [1]Result
	first   [1]portion
	more    []portion // all of them, when the rows went in several
}

// Wait returns when the rows of the record are on local disk, or at once where all sinks are SyncUnsafe, with the result
// and the error of [Engine.Ingest]. Call it once for each record that must be acknowledged.
func (p Pending) Wait(ctx context.Context) (Result, error) { return p.wait(ctx) }

func (p *Pending) wait(ctx context.Context) (Result, error) {
	if p.src == nil {
		return p.results[0], nil
	}
	portions := p.first[:]
	if p.more != nil {
		portions = slices.Clone(p.more)
	}
	if err := p.src.await(ctx, portions, p.results[:]); err != nil {
		return Result{}, err
	}
	return p.results[0], p.results[0].Err(p.src.def.ID)
}
