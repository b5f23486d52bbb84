package forebay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay/forebay/mapping"
)

// IngestMissing is IngestBatch for records that are sent again, of which some sinks have the row already: has is asked
// once for each record and enabled sink, by the place of the record, and where it answers true nothing is stored and the
// result is Stored. The sinks are served one after the other, each with its own durable wait.
func (e *Engine) IngestMissing(
	ctx context.Context, sourceID string, recs []*mapping.Record, has func(record int, sink string) bool,
) ([]Result, error) {
	src, err := e.open(ctx, sourceID)
	if err != nil {
		return nil, err
	}
	if i := slices.Index(recs, nil); i >= 0 {
		return nil, fmt.Errorf("forebay: record %d is nil", i)
	}
	results := make([]Result, len(recs))
	for i := range results {
		results[i].Sinks = make([]SinkResult, 0, len(src.sinks))
	}
	var missing []*mapping.Record
	var places []int
	for k, s := range src.sinks {
		missing, places = missing[:0], places[:0]
		for i, rec := range recs {
			if has(i, s.id) {
				results[i].Sinks = append(results[i].Sinks, SinkResult{Sink: s.id, Status: Stored})
			} else {
				missing, places = append(missing, rec), append(places, i)
			}
		}
		if len(missing) == 0 {
			continue
		}
		one := &source{def: src.def, sinks: src.sinks[k : k+1], kept: src.kept[k : k+1], wait: s.sync != SyncUnsafe, dropped: src.dropped}
		part := make([]Result, len(missing))
		if err := one.settle(ctx, e.take(ctx, one, missing, part, nil), part); err != nil {
			for i := range part {
				part[i].Sinks = []SinkResult{{Sink: s.id, Status: Failed, Err: err}}
			}
		}
		for i, at := range places {
			results[at].Sinks = append(results[at].Sinks, part[i].Sinks[0])
		}
	}
	var problems []error
	for i := range results {
		if err := results[i].Err(sourceID); err != nil {
			problems = append(problems, fmt.Errorf("record %d: %w", i, err))
		}
	}
	return results, errors.Join(problems...)
}
