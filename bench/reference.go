package main

import (
	"context"
	"fmt"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// referenceWriters is the number of callers of the benchmark that the published service has of its own local level. Each stores one short row and
// waits until it is on disk.
const referenceWriters = 10_000

// ofReference returns that load, and its floor: as many goroutines that wait for a group, which is one sync of 4 KB, and nothing else.
func ofReference() []scenario {
	w := workload{name: "75B", bodyBytes: 72, rowBytes: 75}
	const wake = "baseline/wake/75B"
	return []scenario{
		{name: wake, group: "reference", run: func(ctx context.Context, e *env) (*sample, error) {
			disk, err := e.ring.get(e)
			if err != nil {
				return nil, err
			}
			block := make([]byte, 4<<10)
			return commitGroups(ctx, e, make([]byte, w.rowBytes), referenceWriters, func([]byte) error { return disk.append(block) })
		}},
		{
			name: fmt.Sprintf("reference/writers=%d", referenceWriters), group: "reference", run: storeShort(w), fsync: true,
			against: []baseline{{"wake", wake}}, goals: []goal{atLeast("of_wake", 0.8)},
		},
	}
}

// storeShort stores the bodies alone, in one column.
func storeShort(w workload) scenarioFunc {
	source := forebay.Source{Sinks: []forebay.Sink{{ID: sinkID, Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{mapping.Body("body")}}}}}
	return func(ctx context.Context, e *env) (*sample, error) {
		return setup{source: source}.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) {
			return storeSingly(ctx, e, eng, w, w.rowBytes, referenceWriters)
		})
	}
}
