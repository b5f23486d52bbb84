package forebay

import (
	"context"
	"slices"
)

// Pending is a record that is in memory, on its way to the disk: see [Engine.Submit]. Its zero value stands for no record.
type Pending struct {
	src    *source
	result Result
	first  portion
	more   []portion // all of them, when the rows went in several
}

// Wait returns when the rows of the record are on local disk, or at once where all sinks are SyncUnsafe, with the result
// and the error of [Engine.Ingest]. Call it once for each record that must be acknowledged.
func (p Pending) Wait(ctx context.Context) (Result, error) {
	if p.src == nil {
		return p.result, nil
	}
	memory := [1]portion{p.first}
	portions := memory[:]
	if p.more != nil {
		portions = slices.Clone(p.more)
	}
	results := [1]Result{p.result}
	if err := p.src.await(ctx, portions, results[:]); err != nil {
		return Result{}, err
	}
	return results[0], results[0].Err(p.src.def.ID)
}
