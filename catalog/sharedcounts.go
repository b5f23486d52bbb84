package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
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

func (s *shared) count(ctx context.Context, sources []string) counts {
	k := sharedCounts{instance: s.opts.Instance, others: map[string]map[[2]string]sinkCounts{}}
	r := request{Op: opStatistics, Sources: sources}
	got := s.askNodes(ctx, statisticsTimeout, r, nil)
	var responses []instanceResponse
	for _, a := range s.adopted.all() {
		responses = append(responses, s.carryOutWith(ctx, a, r))
	}
	epochs := map[string]uint64{}
	for _, i := range append(responses, got.instances()...) {
		if _, known := k.others[i.Instance]; known && i.Epoch < epochs[i.Instance] {
			continue
		}
		epochs[i.Instance], k.others[i.Instance] = i.Epoch, map[[2]string]sinkCounts{}
		for _, n := range i.Sinks {
			k.others[i.Instance][[2]string{n.Source, n.Sink}] = n
		}
	}
	has := func(instance string) bool { return instance == k.instance || k.others[instance] != nil }
	k.view, k.away = s.missing(ctx, has, got)
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
		out.add(own)
	}
	for instance, sinks := range k.others {
		if _, lives := k.view.instances[instance]; lives {
			out.add(sinks[at].stats())
			out.Quarantine.add(sinks[at].Quarantine)
		}
	}
	if ended := k.view.ended[source+"/"+s.ID]; ended.Created.Equal(s.Created.At) {
		out.add(sinkCounts{Target: ended.Target, Expired: ended.Expired, Damaged: ended.Damaged, Discarded: ended.Discarded}.stats())
		out.Quarantine.add(ended.Quarantine)
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

// sinkCounts are counters of one sink in one instance.
type sinkCounts struct {
	Source    string           `json:"source"`
	Sink      string           `json:"sink"`
	Local     levelRecord      `json:"local,omitzero"`
	Staging   levelRecord      `json:"staging,omitzero"`
	Target    levelRecord      `json:"target,omitzero"`
	Expired   levelRecord      `json:"expired,omitzero"`
	Damaged   levelRecord      `json:"damaged,omitzero"`
	Discarded levelRecord      `json:"discarded,omitzero"`
	Rejected  map[string]int64 `json:"rejected,omitempty"`
	Refused   string           `json:"refused,omitempty"`
	// Quarantine is left out by releases without quarantines.
	Quarantine QuarantineStatistics `json:"quarantine,omitzero"`
	Files      []fileCounts         `json:"files,omitempty"`
}

// fileCounts is a [buffer.FileStats] without its table.
type fileCounts struct {
	ID          string           `json:"id"`
	State       buffer.FileState `json:"state"`
	OpenedAt    time.Time        `json:"openedAt,omitzero"`
	ClosedAt    time.Time        `json:"closedAt,omitzero"`
	ImportingAt time.Time        `json:"importingAt,omitzero"`
	FinishedAt  time.Time        `json:"finishedAt,omitzero"`
	Reason      string           `json:"reason,omitempty"`
	Slices      int              `json:"slices,omitempty"`
	Level       levelRecord      `json:"level"`
	Attempt     int              `json:"attempt,omitempty"`
	RetryReason string           `json:"retryReason,omitempty"`
	RetryAfter  time.Time        `json:"retryAfter,omitzero"`
	// Refused is left out by releases that cannot split a file on demand.
	Refused *rowRefused `json:"refused,omitempty"`
	// The others are left out by releases before they were added.
	FirstFailed time.Time `json:"firstFailed,omitzero"`
	Permanent   bool      `json:"permanent,omitempty"`
	UploadAt    time.Time `json:"uploadAt,omitzero"`
	ImportAt    time.Time `json:"importAt,omitzero"`
	Poison      int64     `json:"poison,omitempty"`
	CallSince   time.Time `json:"callSince,omitzero"`
	Leased      bool      `json:"leased,omitempty"`
}

// rowRefused is a [driver.RowError].
type rowRefused struct {
	Row     int64  `json:"row"`
	Column  string `json:"column,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func newSinkCounts(st forebay.SinkStats) sinkCounts {
	n := sinkCounts{
		Source: st.Source, Sink: st.Sink, Rejected: st.Rejected, Refused: st.Refused, Quarantine: newQuarantineStatistics(st.Quarantine),
		Local: levelRecord(st.Local), Staging: levelRecord(st.Staging), Target: levelRecord(st.Target),
		Expired: levelRecord(st.Expired), Damaged: levelRecord(st.Damaged), Discarded: levelRecord(st.Discarded),
	}
	for _, f := range st.Files {
		n.Files = append(n.Files, fileCounts{
			ID: f.ID, State: f.State, OpenedAt: f.OpenedAt, ClosedAt: f.ClosedAt, ImportingAt: f.ImportingAt, FinishedAt: f.FinishedAt,
			Reason: f.Reason, Slices: f.Slices, Level: levelRecord(f.Level), Attempt: f.Attempt, RetryReason: f.RetryReason, RetryAfter: f.RetryAfter,
			Refused: (*rowRefused)(f.Refused), FirstFailed: f.FirstFailed, Permanent: f.Permanent, UploadAt: f.UploadAt, ImportAt: f.ImportAt,
			Poison: f.Poison, CallSince: f.CallSince, Leased: f.Leased,
		})
	}
	return n
}

// stats returns the counters except the quarantine.
func (n sinkCounts) stats() (st forebay.SinkStats) {
	st.Local, st.Staging, st.Target = buffer.Level(n.Local), buffer.Level(n.Staging), buffer.Level(n.Target)
	st.Expired, st.Damaged, st.Discarded = buffer.Level(n.Expired), buffer.Level(n.Damaged), buffer.Level(n.Discarded)
	st.Rejected, st.Refused = n.Rejected, n.Refused
	for _, f := range n.Files {
		st.Files = append(st.Files, f.stats())
	}
	return st
}

func (f fileCounts) stats() buffer.FileStats {
	return buffer.FileStats{
		ID: f.ID, State: f.State, OpenedAt: f.OpenedAt, ClosedAt: f.ClosedAt, ImportingAt: f.ImportingAt, FinishedAt: f.FinishedAt,
		Reason: f.Reason, Slices: f.Slices, Level: buffer.Level(f.Level), Attempt: f.Attempt, RetryReason: f.RetryReason, RetryAfter: f.RetryAfter,
		Refused: (*driver.RowError)(f.Refused), FirstFailed: f.FirstFailed, Permanent: f.Permanent, UploadAt: f.UploadAt, ImportAt: f.ImportAt,
		Poison: f.Poison, CallSince: f.CallSince, Leased: f.Leased,
	}
}

// countsOf returns the counters of some sources.
func countsOf(sinks []forebay.SinkStats, sources []string) (list []sinkCounts) {
	for _, st := range sinks {
		if slices.Contains(sources, st.Source) {
			list = append(list, newSinkCounts(st))
		}
	}
	return list
}
