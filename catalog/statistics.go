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

// SinkStatistics returns the counters of a sink. See [Catalog.Statistics].
func (c *Catalog) SinkStatistics(ctx context.Context, sourceID, id string) (Statistics, error) {
	if _, _, err := c.Sink(sourceID, id); err != nil {
		return Statistics{}, err
	}
	all, err := c.Statistics(ctx, []string{sourceID})
	return all[sourceID][id], err
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
	counted := c.count(ctx, live)
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

// counted has the known counters of some sources at one moment.
type counted struct {
	// own are the counters of this catalog's engine, under the name instance, which is empty where the store is not shared.
	own      map[[2]string]forebay.SinkStats
	instance string
	// others are the counters of the other instances that were learned, by name.
	others  map[string]map[[2]string]sinkCounts
	view    membersView
	missing []Missing
}

// count asks all nodes for the counters of some sources.
func (c *Catalog) count(ctx context.Context, sources []string) counted {
	k := counted{others: map[string]map[[2]string]sinkCounts{}}
	if c.shared != nil {
		k.instance = c.opts.Instance
		answers := c.ask(ctx, statisticsTimeout, request{Op: opStatistics, Sources: sources})
		epochs := map[string]uint64{}
		for _, i := range append(c.adoptedCounts(sources), answers.instances()...) {
			if _, known := k.others[i.Instance]; known && i.Epoch < epochs[i.Instance] {
				continue
			}
			epochs[i.Instance], k.others[i.Instance] = i.Epoch, map[[2]string]sinkCounts{}
			for _, s := range i.Sinks {
				k.others[i.Instance][[2]string{s.Source, s.Sink}] = s
			}
		}
		has := func(instance string) bool { return instance == k.instance || k.others[instance] != nil }
		if k.view = c.members.view(); len(c.missing(k.view, has, answers)) > 0 {
			_ = c.co.catchUp(ctx, statisticsTimeout) // an instance that has ended meanwhile is not missing
			k.view = c.members.view()
		}
		k.missing = c.missing(k.view, has, answers)
	}
	k.own = map[[2]string]forebay.SinkStats{}
	for _, st := range c.eng.Stats().Sinks { // last, so that the caller sees the events that it has just sent here
		if slices.Contains(sources, st.Source) {
			k.own[[2]string{st.Source, st.Sink}] = st
		}
	}
	return k
}

// statisticsTimeout bounds how long statistics wait for other nodes.
const statisticsTimeout = 2 * time.Second

// ownCounts reports whether the rows of this catalog's engine count. An engine that another node has adopted may not know it yet. Then
// its rows count there, or in the sums of ended instances.
func (k counted) ownCounts() bool {
	_, lives := k.view.instances[k.instance]
	return k.instance == "" || lives && k.others[k.instance] == nil
}

// of returns the counters of a sink.
func (k counted) of(source string, s Sink) Statistics {
	at := [2]string{source, s.ID}
	own := k.own[at]
	out := Statistics{
		Columns: own.Table.Columns, Version: own.Version, Retired: own.Retired, Refused: own.Refused, Missing: k.missing,
		Rejected: map[string]int64{},
	}
	clearedAt := s.Cleared.At
	var quarantine quarantineRecord
	add := func(n sinkCounts) {
		addLevel(&out.Local, buffer.Level(n.Local))
		addLevel(&out.Staging, buffer.Level(n.Staging))
		addLevel(&out.Target, buffer.Level(n.Target))
		addLevel(&out.Expired, buffer.Level(n.Expired))
		addLevel(&out.Damaged, buffer.Level(n.Damaged))
		addLevel(&out.Discarded, buffer.Level(n.Discarded))
		quarantine.add(n.Quarantine)
		for reason, records := range n.Rejected {
			out.Rejected[reason] += records
		}
		for _, f := range n.Files {
			out.Files = append(out.Files, f.stats())
		}
		out.Refused = cmp.Or(out.Refused, n.Refused)
	}
	subtract := func(cleared Cleared) {
		out.Target.Rows -= cleared.Rows
		out.Target.StoredBytes -= cleared.StoredBytes
		out.Target.RawBytes -= cleared.RawBytes
	}
	mine := newSinkCounts(own)
	mine.Files = nil
	if k.ownCounts() {
		add(mine)
		out.Files = slices.Clone(own.Files) // with their tables
	}
	if k.instance == "" {
		subtract(s.Cleared)
	} else {
		for instance, sinks := range k.others {
			if _, counts := k.view.instances[instance]; counts {
				add(sinks[at])
			}
		}
		if ended := k.view.ended[source+"/"+s.ID]; ended.Created.Equal(s.Created.At) {
			add(sinkCounts{Target: ended.Target, Expired: ended.Expired, Damaged: ended.Damaged, Discarded: ended.Discarded, Quarantine: ended.Quarantine})
		}
		for instance, cleared := range s.ClearedOn {
			if cleared.At.After(clearedAt) {
				clearedAt = cleared.At
			}
			if _, lives := k.view.instances[instance]; !lives || instance == k.instance || k.others[instance] != nil {
				subtract(cleared) // of an instance that has ended, its rows are among the ended ones
			}
		}
	}
	out.Quarantine = quarantine.statistics()
	floor := func(n *int64) { *n = max(*n, 0) }
	floor(&out.Target.Rows)
	floor(&out.Target.StoredBytes)
	floor(&out.Target.RawBytes)
	for _, l := range []buffer.Level{out.Local, out.Staging, out.Target} {
		if l.Rows <= 0 {
			l.Rows, l.StoredBytes, l.RawBytes = 0, 0, 0
		}
		addLevel(&out.Total, l)
	}
	out.Files = slices.DeleteFunc(out.Files, func(f buffer.FileStats) bool { return !f.OpenedAt.After(clearedAt) })
	slices.SortStableFunc(out.Files, func(a, b buffer.FileStats) int { return a.OpenedAt.Compare(b.OpenedAt) })
	return out
}

// ClearStatistics sets the counters of a sink's table to zero, or the counters of all live sinks of a source. Waiting rows are
// still counted. On a store that several catalogs share it needs the counters of all nodes. If one does not respond within 2 s, the error is
// a [*MissingError] and nothing was changed.
func (c *Catalog) ClearStatistics(ctx context.Context, ref Ref) error {
	if _, _, err := c.find(ref); err != nil {
		return err
	}
	k := c.count(ctx, []string{ref.Source})
	if len(k.missing) > 0 {
		return &MissingError{Missing: k.missing}
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

// clear records the counters to subtract from then on.
func (k counted) clear(at time.Time, source string, s *Sink) {
	key := [2]string{source, s.ID}
	cleared := func(l buffer.Level) Cleared {
		return Cleared{At: at, Rows: l.Rows, StoredBytes: l.StoredBytes, RawBytes: l.RawBytes}
	}
	own := cleared(k.own[key].Target)
	if k.instance == "" {
		if _, known := k.own[key]; known {
			s.Cleared = own
		}
		return
	}
	s.ClearedOn = map[string]Cleared{}
	if k.ownCounts() {
		s.ClearedOn[k.instance] = own
	}
	for instance, sinks := range k.others {
		if _, lives := k.view.instances[instance]; lives {
			s.ClearedOn[instance] = cleared(buffer.Level(sinks[key].Target))
		}
	}
	if ended := k.view.ended[source+"/"+s.ID]; ended.Created.Equal(s.Created.At) {
		s.ClearedOn[endedInstances] = cleared(buffer.Level(ended.Target))
	}
}

// endedInstances stands for all of them in [Sink.ClearedOn].
const endedInstances = ""
