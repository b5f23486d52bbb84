package forebay

import (
	"slices"
	"sync/atomic"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/rejections"
	"github.com/forebay/forebay/internal/secrets"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/shadow"
)

// source is an immutable, compiled definition.
type source struct {
	def Source
	// compiled keeps the mappers of all sinks alive, including disabled sinks, for the next definition.
	compiled *Definition
	secrets  secrets.Secrets
	redactor *kept.Redactor // of records in quarantines and in the archive
	sinks    []*sink        // the enabled ones, in the order of the definition
	// wait is set when the acknowledgement of at least one sink means "on disk".
	wait bool
	// allStored are the outcomes of a record that every sink takes.
	allStored []SinkResult
	// dropped counts the records that no enabled sink took.
	dropped *atomic.Int64
	// views are the source without the sinks that do not take a signal, for the signals that not every sink takes.
	views map[Signal]*source
}

type sink struct {
	id     string
	mapper *mapping.Mapper
	handle *buffer.DefinedSink
	sync   SyncMode
	count  *rejections.Counter
	reject func(error) // of [Options.Hooks], or nil if there is none
	// refused is set while the columns of the definition are refused, so that the sink keeps its earlier ones.
	refused bool
	// keeps is set with a quarantine. name names the definition.
	keeps bool
	name  kept.DefinitionName
	// columns made the mapper. shadow stays the same over all definitions of the sink.
	columns mapping.Columns
	target  string // the name of the target of the table
	shadow  *shadow.Slot
	// archive is set for the sink that keeps raw records. It has no mapper.
	archive bool
}

// sink returns the enabled sink with an id, or nil if there is none. The archive is no such sink.
func (src *source) sink(id string) *sink {
	for _, s := range src.sinks {
		if s.id == id && !s.archive {
			return s
		}
	}
	return nil
}

// noSource is compared with the secret of a request to an unknown source.
var noSource = &source{}

// add adds an enabled sink.
func (src *source) add(s *sink) {
	status := Stored
	if s.sync == SyncUnsafe {
		status = Queued
	}
	src.sinks = append(src.sinks, s)
	src.allStored = append(src.allStored, SinkResult{Sink: s.id, Status: status})
	src.wait = src.wait || status == Stored
}

// forSignal returns the source as a batch of a signal sees it.
func (src *source) forSignal(signal Signal) *source {
	if view, ok := src.views[signal]; ok {
		return view
	}
	return src
}

// makeViews prepares forSignal, for the signals that not every sink takes.
func (src *source) makeViews() {
	for _, signal := range allSignals {
		view := &source{def: src.def, redactor: src.redactor, dropped: src.dropped}
		for i, s := range src.sinks {
			at := slices.IndexFunc(src.def.Sinks, func(d Sink) bool { return d.ID == s.id })
			if s.archive || src.def.Sinks[at].takes(signal) {
				view.sinks = append(view.sinks, s)
				view.allStored = append(view.allStored, src.allStored[i])
				view.wait = view.wait || s.sync != SyncUnsafe
			}
		}
		if len(view.sinks) < len(src.sinks) {
			if src.views == nil {
				src.views = make(map[Signal]*source)
			}
			src.views[signal] = view
		}
	}
}

// own returns outcomes that may be changed, a copy of the shared ones.
func (src *source) own(out []SinkResult) []SinkResult {
	if &out[0] == &src.allStored[0] {
		return slices.Clone(out)
	}
	return out
}

// countFailed counts records that were not stored at any sink.
func (src *source) countFailed(records int) {
	for _, s := range src.sinks {
		s.count.Fail(records)
	}
}
