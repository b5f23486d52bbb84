package catalog

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

// Cleared is the state of a sink's table when its statistics were cleared. It is subtracted from then on.
type Cleared struct {
	// At is the time of the clearing. Files opened before it are no longer shown.
	At time.Time `json:"at"`
	// Rows, StoredBytes and RawBytes are of [buffer.Level].
	Rows        int64 `json:"rows"`
	StoredBytes int64 `json:"storedBytes"`
	RawBytes    int64 `json:"rawBytes"`
}

// Statistics are the counters of one sink since they were cleared last.
type Statistics struct {
	// Total is the sum of the levels. Its times span all rows that were ever counted. They do not begin again with a
	// clearing.
	Total, Local, Staging, Target buffer.Level
	// Expired, Damaged and Discarded are rows that are no longer in any level and not in the table.
	Expired, Damaged, Discarded buffer.Level
	// Quarantine counts the rejected records that were kept. Clearing leaves it as it is.
	Quarantine QuarantineStatistics
	// Rejected counts by reason the records that were not stored, since the engine was opened.
	Rejected map[string]int64
	// Files are the waiting files, and the last that ended, oldest first. Files opened before the clearing are left out. The Table of a file
	// of another node is empty.
	Files []buffer.FileStats
	// Columns are the columns of new rows. While Refused is set, they are older than the definition, whose columns were refused.
	Columns []datatype.Column
	// Version, Retired and Refused are of [buffer.SinkStats], of a table that grows.
	Version int
	Retired []datatype.Column
	Refused string
	// Missing are the instances whose rows are not in these counters, because no node has responded for them.
	Missing []Missing
}

func (c *Catalog) sinkStatistics(ctx context.Context, ref Ref) (Statistics, error) {
	if _, _, err := c.Sink(ref.Source, ref.Sink); err != nil {
		return Statistics{}, err
	}
	all, err := c.Statistics(ctx, []string{ref.Source})
	return all[ref.Source][ref.Sink], err
}

// Statistics returns the counters of all live sinks of some sources, by source and sink id. Sources that are deleted, or that there are none
// of, are left out.
//
// On a store that several catalogs share they are sums over all nodes. Each row is counted once, even while another node takes over, and
// counts stay when an instance has ended. Statistics waits 2 s at most for the other nodes. The instances that did not respond by then are in
// Statistics.Missing. It fails only when ctx ends.
func (c *Catalog) Statistics(ctx context.Context, sourceIDs []string) (map[string]map[string]Statistics, error) {
	var live []string
	for _, id := range sourceIDs {
		if c.defs.get(id).live() {
			live = append(live, id)
		}
	}
	counted := c.co.count(ctx, live)
	all := make(map[string]map[string]Statistics, len(live))
	for _, id := range live {
		t := c.defs.get(id)
		if !t.live() {
			continue // deleted meanwhile
		}
		all[id] = make(map[string]Statistics)
		for _, s := range t.sorted(false) {
			all[id][s.ID] = counted.of(id, s)
		}
	}
	return all, context.Cause(ctx)
}

// counts are the counters of some sources at one moment.
type counts interface {
	// of returns the counters of a sink.
	of(source string, s Sink) Statistics
	// clear makes s record the counters to subtract from then on.
	clear(at time.Time, source string, s *Sink)
	// missing are the instances whose counters are not known.
	missing() []Missing
}

// engineCounts are the counters of an engine, by source and sink.
type engineCounts map[[2]string]forebay.SinkStats

func (c *Catalog) engineCounts(sources []string) engineCounts {
	own := engineCounts{}
	for _, st := range c.eng.Stats().Sinks {
		if slices.Contains(sources, st.Source) {
			own[[2]string{st.Source, st.Sink}] = st
		}
	}
	return own
}

func (k engineCounts) of(source string, s Sink) Statistics {
	own := k[[2]string{source, s.ID}]
	out := newStatistics(own)
	out.add(own)
	out.subtract(s.Cleared)
	out.finish(s.Cleared.At)
	return out
}

func (k engineCounts) clear(at time.Time, source string, s *Sink) {
	if own, known := k[[2]string{source, s.ID}]; known {
		s.Cleared = newCleared(at, own.Target)
	}
}

func (engineCounts) missing() []Missing { return nil }

func newCleared(at time.Time, l buffer.Level) Cleared {
	return Cleared{At: at, Rows: l.Rows, StoredBytes: l.StoredBytes, RawBytes: l.RawBytes}
}

// newStatistics has what only the engine that accepts the rows knows.
func newStatistics(own forebay.SinkStats) Statistics {
	return Statistics{Columns: own.Table.Columns, Version: own.Version, Retired: own.Retired, Refused: own.Refused, Rejected: map[string]int64{}}
}

func (out *Statistics) add(n forebay.SinkStats) {
	out.Local = sumOf(out.Local, n.Local)
	out.Staging = sumOf(out.Staging, n.Staging)
	out.Target = sumOf(out.Target, n.Target)
	out.Expired = sumOf(out.Expired, n.Expired)
	out.Damaged = sumOf(out.Damaged, n.Damaged)
	out.Discarded = sumOf(out.Discarded, n.Discarded)
	out.Quarantine.add(newQuarantineStatistics(n.Quarantine))
	for reason, records := range n.Rejected {
		out.Rejected[reason] += records
	}
	out.Files = append(out.Files, n.Files...)
	out.Refused = cmp.Or(out.Refused, n.Refused)
}

// sumOf adds the counters of two levels. Its times span both.
func sumOf(a, b buffer.Level) buffer.Level {
	a.Rows += b.Rows
	a.StoredBytes += b.StoredBytes
	a.RawBytes += b.RawBytes
	if !b.FirstAt.IsZero() && (a.FirstAt.IsZero() || b.FirstAt.Before(a.FirstAt)) {
		a.FirstAt = b.FirstAt
	}
	if b.LastAt.After(a.LastAt) {
		a.LastAt = b.LastAt
	}
	return a
}

func (out *Statistics) subtract(cleared Cleared) {
	out.Target.Rows -= cleared.Rows
	out.Target.StoredBytes -= cleared.StoredBytes
	out.Target.RawBytes -= cleared.RawBytes
}

// finish makes the total, and leaves out files from before the last clearing.
func (out *Statistics) finish(clearedAt time.Time) {
	floor := func(n *int64) { *n = max(*n, 0) }
	floor(&out.Target.Rows)
	floor(&out.Target.StoredBytes)
	floor(&out.Target.RawBytes)
	for _, l := range []buffer.Level{out.Local, out.Staging, out.Target} {
		if l.Rows <= 0 {
			l.Rows, l.StoredBytes, l.RawBytes = 0, 0, 0
		}
		out.Total = sumOf(out.Total, l)
	}
	out.Files = slices.DeleteFunc(out.Files, func(f buffer.FileStats) bool { return !f.OpenedAt.After(clearedAt) })
	slices.SortStableFunc(out.Files, func(a, b buffer.FileStats) int { return a.OpenedAt.Compare(b.OpenedAt) })
}

// ClearStatistics sets the counters of a sink's table to zero, or the counters of all live sinks of a source. Waiting rows are
// still counted. On a store that several catalogs share it needs the counters of all nodes. If one does not respond within 2 s, the error is
// a [*MissingError] and nothing was changed.
func (c *Catalog) ClearStatistics(ctx context.Context, ref Ref) error {
	if _, _, err := c.find(ref); err != nil {
		return err
	}
	k := c.co.count(ctx, []string{ref.Source})
	if missing := k.missing(); len(missing) > 0 {
		return &MissingError{Missing: missing}
	}
	entity := ref.Source + " statistics" // not a valid id, so it does not exclude the tasks of the source
	return c.direct(ctx, By{}, ref, entity, live(func(ch *change) error {
		for _, s := range ch.next.sinks {
			if s.Deleted == nil && (ref.Sink == "" || ref.Sink == s.ID) {
				k.clear(ch.at, ref.Source, s)
			}
		}
		return nil
	}))
}

// statisticsTimeout bounds how long statistics wait for other nodes.
const statisticsTimeout = 2 * time.Second
