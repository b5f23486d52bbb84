package catalog

import (
	"context"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

// Cleared is the state of a sink's table when its statistics were cleared: what is subtracted from then on.
type Cleared struct {
	// At is when; files opened before are not shown any more.
	At time.Time `json:"at"`
	// Rows, StoredBytes and RawBytes are of [buffer.Level].
	Rows        int64 `json:"rows"`
	StoredBytes int64 `json:"storedBytes"`
	RawBytes    int64 `json:"rawBytes"`
}

// Statistics are the counters of one sink since they were cleared last.
type Statistics struct {
	// Total is the sum of the levels. Its times span all rows that were ever counted: they do not begin again with a
	// clearing.
	Total, Local, Staging, Target buffer.Level
	// Expired, Damaged and Discarded are rows that are in no level any more and not in the table.
	Expired, Damaged, Discarded buffer.Level
	// Rejected counts by reason the records that were not stored, since the engine was opened.
	Rejected map[string]int64
	// Files are those that wait, and the last that ended, oldest first. Those opened before the clearing are left out.
	Files []buffer.FileStats
	// Columns are the columns of new rows. While Refused is set, they are older than the definition, whose columns were refused.
	Columns []datatype.Column
	// Version, Retired and Refused are of [buffer.SinkStats], of a table that grows.
	Version int
	Retired []datatype.Column
	Refused string
}

// SinkStatistics returns the counters of a sink.
func (c *Catalog) SinkStatistics(sourceID, id string) (Statistics, error) {
	if _, _, err := c.Sink(sourceID, id); err != nil {
		return Statistics{}, err
	}
	return c.Statistics([]string{sourceID})[sourceID][id], nil
}

// Statistics returns the counters of all live sinks of some sources, by source and sink id, as they are at one moment.
// Sources that are deleted, or that there are none of, are left out.
func (c *Catalog) Statistics(sourceIDs []string) map[string]map[string]Statistics {
	bySource := make(map[string][]forebay.SinkStats)
	for _, st := range c.eng.Stats().Sinks {
		bySource[st.Source] = append(bySource[st.Source], st)
	}
	all := make(map[string]map[string]Statistics, len(sourceIDs))
	for _, id := range sourceIDs {
		t := c.defs.get(id)
		if !t.live() {
			continue
		}
		all[id] = make(map[string]Statistics)
		for _, s := range t.sorted(false) {
			all[id][s.ID] = Statistics{}
		}
		for _, st := range bySource[id] {
			if s := t.sink(st.Sink); s != nil {
				all[id][s.ID] = statistics(c.cleared(*s, st), st)
			}
		}
	}
	return all
}

// cleared returns what to subtract from the counters of the engine.
func (c *Catalog) cleared(s Sink, st forebay.SinkStats) Cleared {
	if c.shared == nil {
		return s.Cleared
	}
	cleared := s.ClearedOn[c.opts.Node]
	if cleared.Rows > st.Target.Rows { // of an earlier engine of the node, whose counters are gone
		return Cleared{}
	}
	return cleared
}

func statistics(cleared Cleared, st forebay.SinkStats) Statistics {
	out := Statistics{
		Local: st.Local, Staging: st.Staging, Target: st.Target,
		Expired: st.Expired, Damaged: st.Damaged, Discarded: st.Discarded, Rejected: st.Rejected,
		Columns: st.Table.Columns, Version: st.Version, Retired: st.Retired, Refused: st.Refused,
	}
	out.Target.Rows -= cleared.Rows
	out.Target.StoredBytes -= cleared.StoredBytes
	out.Target.RawBytes -= cleared.RawBytes
	for _, l := range []buffer.Level{out.Local, out.Staging, out.Target} {
		t := &out.Total
		if l.Rows > 0 {
			t.Rows += l.Rows
			t.StoredBytes += l.StoredBytes
			t.RawBytes += l.RawBytes
		}
		if !l.FirstAt.IsZero() && (t.FirstAt.IsZero() || l.FirstAt.Before(t.FirstAt)) {
			t.FirstAt = l.FirstAt
		}
		if l.LastAt.After(t.LastAt) {
			t.LastAt = l.LastAt
		}
	}
	for _, f := range st.Files {
		if f.OpenedAt.After(cleared.At) {
			out.Files = append(out.Files, f)
		}
	}
	return out
}

// ClearStatistics sets the counters of a sink's table to zero, or the counters of all live sinks of a source. Rows that wait are
// still counted.
func (c *Catalog) ClearStatistics(ctx context.Context, ref Ref) error {
	if _, _, err := c.find(ref); err != nil {
		return err
	}
	entity := ref.Source + " statistics" // not a valid id: it does not exclude the tasks of the source
	return c.direct(ctx, By{}, ref, entity, live(func(ch *change) error {
		for _, st := range c.eng.Stats().Sinks {
			s := ch.next.sink(st.Sink)
			if st.Source == ref.Source && s != nil && (ref.Sink == "" || ref.Sink == s.ID) {
				cleared := Cleared{At: ch.at, Rows: st.Target.Rows, StoredBytes: st.Target.StoredBytes, RawBytes: st.Target.RawBytes}
				if c.shared == nil {
					s.Cleared = cleared
					continue
				}
				on := map[string]Cleared{c.opts.Node: cleared}
				for node, other := range s.ClearedOn {
					if node != c.opts.Node {
						on[node] = other
					}
				}
				s.ClearedOn = on
			}
		}
		return nil
	}))
}
