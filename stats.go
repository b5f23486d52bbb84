package forebay

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/rejections"
)

// Stats are the counters of an engine.
type Stats struct {
	// PendingBytes are row bytes in memory, LocalBytes stored bytes of the local level.
	PendingBytes, LocalBytes int64
	// StoreBytes is the size of the files of the local level, with space that waits to be reclaimed. See [buffer.Stats].
	// 0 while the local level is being reopened.
	StoreBytes int64
	// StagedBytes are the bytes in staging that wait for an import. With PendingBytes and LocalBytes they count against MaxDiskBytes.
	StagedBytes int64
	// MaxDiskBytes bounds the waiting bytes of all sinks, MaxSinkBytes the waiting bytes of one sink. See [buffer.Tuning]. If the volume has
	// less room, MaxDiskBytes is smaller. See [buffer.Stats].
	MaxDiskBytes, MaxSinkBytes int64
	// MaxPendingBytes bounds the bytes that are in memory and not yet on disk. See [buffer.Tuning].
	MaxPendingBytes int64
	// KeyRetention is how long the keys of calls are kept. See [buffer.Tuning].
	KeyRetention time.Duration
	// Retention is how long a file that fails is kept from its first failure on. See [buffer.Tuning].
	Retention time.Duration
	// MaxRowBytes bounds one row. See [Options].
	MaxRowBytes int
	// Damages is the number of records of damage. See [buffer.Buffer.Damaged].
	Damages int64
	// Overloads counts the calls that were refused since Open because memory or disk was full.
	Overloads int64
	// RefusingSince is when the first call was refused because of MaxDiskBytes or a full volume. See [buffer.Stats].
	RefusingSince time.Time
	// Commits, Uploads and Imports are how long they took. See [buffer.Stats].
	Commits, Uploads, Imports buffer.Latency
	// Dropped counts, by source, the records since Open that no enabled sink took.
	Dropped map[string]int64
	// Sinks are sorted by source and sink. A sink that is no longer defined stays listed.
	Sinks []SinkStats
}

// SinkStats are the counters of one sink.
type SinkStats struct {
	// Source and Sink are ids.
	Source, Sink string
	// SinkStats are the rows on each level, the files and the columns. Its ID is "source/sink". Its Refused says why the columns of
	// the definition were refused, so that the sink keeps its earlier ones. See Table.Extend.
	buffer.SinkStats
	// Rejected counts, by reason, the records since Open that did not become rows, including the records in Quarantine. Reasons are the names of
	// [mapping.Reason], "rowTooLarge", and "failed" for records refused by an overload, not stored because of a failure, or of unknown outcome.
	Rejected map[string]int64
}

// Stats returns the counters of all sinks. They may be ahead of the disk by the commit that is being written.
func (e *Engine) Stats() Stats {
	b := e.buf.Stats()
	st := Stats{
		PendingBytes: b.PendingBytes, LocalBytes: b.LocalBytes, StoreBytes: b.StoreBytes, StagedBytes: b.StagedBytes,
		MaxDiskBytes: b.MaxDiskBytes, MaxSinkBytes: b.MaxSinkBytes, MaxPendingBytes: b.MaxPendingBytes, MaxRowBytes: e.opts.MaxRowBytes,
		RefusingSince: b.RefusingSince, Damages: b.Damages, Overloads: b.OverloadsMemory + b.OverloadsDisk,
		Commits: b.Commits, Uploads: b.Uploads, Imports: b.Imports,
		KeyRetention: b.KeyRetention, Retention: b.Retention,
	}
	st.Sinks = make([]SinkStats, 0, len(b.Sinks))
	for _, s := range b.Sinks {
		source, id, _ := strings.Cut(s.ID, "/")
		out := SinkStats{Source: source, Sink: id, SinkStats: s}
		out.Rejected = load[rejections.Counter](&e.counts, s.ID).ByName()
		st.Sinks = append(st.Sinks, out)
	}
	st.Dropped = make(map[string]int64)
	e.dropped.Range(func(id, n any) bool {
		st.Dropped[id.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	slices.SortFunc(st.Sinks, func(a, b SinkStats) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Sink, b.Sink))
	})
	return st
}

// sinkAttributes are the parts of the name of a sink in the buffer.
func sinkAttributes(id string) []attribute.KeyValue {
	source, sink, _ := strings.Cut(id, "/")
	return []attribute.KeyValue{attribute.String("source", source), attribute.String("sink", sink)}
}

// observe registers the metrics that only the engine knows. The buffer has the others.
func (e *Engine) observe() (metric.Registration, error) {
	if e.opts.Meter == nil {
		return nil, nil
	}
	most := cmp.Or(e.opts.Buffer.MaxMeasuredSinks, buffer.DefaultMeasuredSinks)
	return rejections.Observe(e.opts.Meter, most, sinkAttributes, func() iter.Seq[rejections.Sink] {
		return func(yield func(rejections.Sink) bool) {
			for src := range e.sources.All() {
				for _, s := range src.sinks {
					if !yield(rejections.Sink{ID: s.handle.ID(), Refused: s.refused, Count: s.count}) {
						return
					}
				}
			}
		}
	})
}
