package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer"
)

// sharedCounts are the counters of all instances.
type sharedCounts struct {
	// own are the counters of this catalog's engine, under the name instance.
	own      engineCounts
	instance string
	// others are the counters of the other instances that were learned, by name.
	others map[string]map[[2]string]sinkCounts
	view   membersView
	away   []Missing
}

// count implements [coordinator].
func (s *shared) count(ctx context.Context, sources []string) counts {
	k := sharedCounts{instance: s.c.opts.Instance, others: map[string]map[[2]string]sinkCounts{}}
	answers := s.askNodes(ctx, statisticsTimeout, request{Op: opStatistics, Sources: sources}, nil)
	epochs := map[string]uint64{}
	for _, i := range append(s.adoptedCounts(sources), answers.instances()...) {
		if _, known := k.others[i.Instance]; known && i.Epoch < epochs[i.Instance] {
			continue
		}
		epochs[i.Instance], k.others[i.Instance] = i.Epoch, map[[2]string]sinkCounts{}
		for _, n := range i.Sinks {
			k.others[i.Instance][[2]string{n.Source, n.Sink}] = n
		}
	}
	has := func(instance string) bool { return instance == k.instance || k.others[instance] != nil }
	if k.view = s.members.view(); len(s.missing(k.view, has, answers)) > 0 {
		_ = s.catchUp(ctx, statisticsTimeout) // an instance that has ended meanwhile is not missing
		k.view = s.members.view()
	}
	k.away = s.missing(k.view, has, answers)
	k.own = s.c.engineCounts(sources) // last, so that the caller sees the events that it has just sent here
	return k
}

func (k sharedCounts) missing() []Missing { return k.away }

// ownCounts reports whether the rows of this catalog's engine count. An engine that another node has adopted may not know it yet. Then
// its rows count there, or in the sums of ended instances.
func (k sharedCounts) ownCounts() bool {
	_, lives := k.view.instances[k.instance]
	return lives && k.others[k.instance] == nil
}

func (k sharedCounts) of(source string, s Sink) Statistics {
	at := [2]string{source, s.ID}
	own := k.own[at]
	out := newStatistics(own)
	out.Missing = k.away
	if k.ownCounts() {
		out.add(newSinkCounts(own))
		out.Files = slices.Clone(own.Files) // with their tables
	}
	for instance, sinks := range k.others {
		if _, lives := k.view.instances[instance]; lives {
			out.add(sinks[at])
		}
	}
	if ended := k.view.ended[source+"/"+s.ID]; ended.Created.Equal(s.Created.At) {
		out.add(sinkCounts{Target: ended.Target, Expired: ended.Expired, Damaged: ended.Damaged, Discarded: ended.Discarded, Quarantine: ended.Quarantine})
	}
	clearedAt := s.Cleared.At
	for instance, cleared := range s.ClearedOn {
		if cleared.At.After(clearedAt) {
			clearedAt = cleared.At
		}
		if _, lives := k.view.instances[instance]; !lives || instance == k.instance || k.others[instance] != nil {
			out.subtract(cleared) // of an instance that has ended, its rows are among the ended ones
		}
	}
	out.finish(clearedAt)
	return out
}

func (k sharedCounts) clear(at time.Time, source string, s *Sink) {
	key := [2]string{source, s.ID}
	s.ClearedOn = map[string]Cleared{}
	if k.ownCounts() {
		s.ClearedOn[k.instance] = newCleared(at, k.own[key].Target)
	}
	for instance, sinks := range k.others {
		if _, lives := k.view.instances[instance]; lives {
			s.ClearedOn[instance] = newCleared(at, buffer.Level(sinks[key].Target))
		}
	}
	if ended := k.view.ended[source+"/"+s.ID]; ended.Created.Equal(s.Created.At) {
		s.ClearedOn[endedInstances] = newCleared(at, buffer.Level(ended.Target))
	}
}

// endedInstances stands for all of them in [Sink.ClearedOn].
const endedInstances = ""
