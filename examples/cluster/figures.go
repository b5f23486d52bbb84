package main

import (
	"fmt"
	"slices"
	"time"
)

// figures are the costs of losses of one kind.
type figures struct {
	ready      []time.Duration // after the end of the loss
	none, well time.Duration   // the longest time without an acknowledgement, of all nodes, and of a node that is well
	took       []time.Duration // events
}

// add adds a loss, with the acknowledgements from its begin until all nodes were ready.
func (f *figures) add(acks []ack, begin, end time.Time, ready time.Duration, nodes, hurt []*process) {
	f.ready = append(f.ready, ready)
	f.none = max(f.none, gap(acks, begin, end))
	for _, p := range nodes {
		if !slices.Contains(hurt, p) {
			f.well = max(f.well, gap(slices.DeleteFunc(slices.Clone(acks), func(a ack) bool { return a.node != p }), begin, end))
		}
	}
	for _, a := range acks {
		f.took = append(f.took, a.took)
	}
}

// gap returns the longest time without an acknowledgement.
func gap(acks []ack, begin, end time.Time) (longest time.Duration) {
	for _, a := range acks {
		longest, begin = max(longest, a.at.Sub(begin)), a.at
	}
	return max(longest, end.Sub(begin))
}

// String returns cells of a table, in seconds.
func (f *figures) String() string {
	slices.Sort(f.ready)
	slices.Sort(f.took)
	part := func(of []time.Duration, permille int) float64 {
		if len(of) == 0 {
			return 0
		}
		return of[min(len(of)*permille/1000, len(of)-1)].Seconds()
	}
	well := "–" // no node was
	if f.well > 0 {
		well = fmt.Sprintf("%.1f", f.well.Seconds())
	}
	return fmt.Sprintf("%d | %.1f, %.1f | %.1f | %s | %.1f, %.1f", len(f.ready), part(f.ready, 500), part(f.ready, 1000),
		f.none.Seconds(), well, part(f.took, 990), part(f.took, 1000))
}
