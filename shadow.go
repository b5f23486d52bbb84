package forebay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/mapping"
)

// ErrShadowed is returned by [SinkHandle.Shadow] for a sink that has a shadow already, and ErrTooManyShadows while the engine has 8.
var (
	ErrShadowed       = errors.New("the sink has a shadow already: stop it first")
	ErrTooManyShadows = errors.New("an engine may have at most 8 shadows at a time: stop one first")
)

// ShadowOptions bound a shadow. The zero value works.
type ShadowOptions struct {
	// For is how long records are taken, up to 24 hours. Default: 10 minutes.
	For time.Duration
	// Records ends the shadow after this many were compared. Default: it ends by time alone.
	Records int64
	// Sample is the share of the records that are compared, drawn at random: above 0, up to 1. Default: 1, all.
	Sample float64
	// MaxBytes bounds the copies of records that wait to be compared, in bytes, up to 64 MiB. Records that come when they are full are
	// dropped and counted. Default: 4 MiB.
	MaxBytes int64
}

// Limits of ShadowOptions, and of what an engine and a report have of shadows.
const (
	maxShadowTime    = 24 * time.Hour
	maxShadowBytes   = 64 << 20
	maxShadows       = 8
	shadowExamples   = 3   // for each column
	shadowValueBytes = 256 // of each value of an example
	shadowErrors     = 50  // groups
)

func (o ShadowOptions) withDefaults() ShadowOptions {
	o.For = cmp.Or(o.For, 10*time.Minute)
	o.Sample = cmp.Or(o.Sample, 1)
	o.MaxBytes = cmp.Or(o.MaxBytes, 4<<20)
	return o
}

// Validate reports all problems at once. Zero fields count as their defaults.
func (o ShadowOptions) Validate() error {
	o = o.withDefaults()
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.For < 0 || o.For > maxShadowTime {
		report("ShadowOptions.For is %v, allowed is up to %v", o.For, maxShadowTime)
	}
	if o.Records < 0 {
		report("ShadowOptions.Records is %d, must not be negative", o.Records)
	}
	if !(o.Sample > 0 && o.Sample <= 1) { // also NaN
		report("ShadowOptions.Sample is %v, allowed is above 0 up to 1", o.Sample)
	}
	if o.MaxBytes < 0 || o.MaxBytes > maxShadowBytes {
		report("ShadowOptions.MaxBytes is %d, allowed is up to %d", o.MaxBytes, maxShadowBytes)
	}
	return errors.Join(problems...)
}

// Shadow is a changed mapping that runs beside the current one: see [SinkHandle.Shadow]. It is safe for concurrent use.
type Shadow struct {
	slot    *atomic.Pointer[Shadow]
	opts    ShadowOptions
	maxRow  int
	live    *mapping.Mapper // the mapper of the sink that is compared
	current shadowMapping   // of the same columns
	changed shadowMapping
	columns []shadowColumn // in the order of the report

	ended chan struct{} // closed when no more records are taken
	done  chan struct{} // closed when all that were taken are compared or dropped
	wake  chan struct{} // has room for one: something waits

	unsampled atomic.Int64

	mu      sync.Mutex
	waiting []shadowRecord
	bytes   int64 // of waiting, and of records that are being copied
	copying int64
	taken   int64 // for Records
	abandon bool  // what waits is dropped
	report  ShadowReport
}

// shadowRecord is the copy of a record. Size is what it counts in Shadow.bytes.
type shadowRecord struct {
	rec  mapping.Record
	size int64
}

// shadowColumn has the places of a column in the rows of the two mappings, -1 for none.
type shadowColumn struct {
	current, changed int
	secret           bool
}

// Shadow lets a changed mapping run beside the current one on the records that a sink takes, and reports the difference. The sink
// must be defined and enabled, and changed must have its id. Of changed only the mapping is tried: neither its settings nor its AllowedSignals, and
// the target is not asked about its table. Nothing is stored and no record fails because of it.
//
// The callers of the live path copy their record. Both mappings run in one goroutine of the shadow, so that callers never wait for them. When
// ShadowOptions.MaxBytes wait to be compared, further records are not copied, and are counted as dropped.
//
// The shadow ends by itself after ShadowOptions.For, when the sink gets other columns, and with the engine; ctx is for the call alone. The
// shadow and its report need little memory once it has ended. Shadows do not outlive the process.
//
// Errors: one for another id of changed, [ErrUnknownSource], [ErrUnknownSink], a [*DefinitionError] with all problems of changed, the error of [ShadowOptions.Validate],
// [ErrShadowed], [ErrTooManyShadows], [ErrClosed], the error of ctx.
func (h SinkHandle) Shadow(ctx context.Context, changed Sink, opts ShadowOptions) (*Shadow, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if changed.ID != h.sink {
		return nil, fmt.Errorf("shadow: the changed sink has the id %q, want %q, the id of the sink that it is compared with", changed.ID, h.sink)
	}
	if err := h.e.lockDefinitions(ctx); err != nil {
		return nil, err
	}
	defer func() { <-h.e.define }()
	src := h.e.sources.get(h.source)
	if src == nil {
		return nil, unknownSource(h.source)
	}
	at := slices.IndexFunc(src.sinks, func(s *sink) bool { return s.id == changed.ID && !s.archive })
	if at < 0 {
		return nil, unknownSink(h.source, changed.ID)
	}
	live, def := src.sinks[at], src.def
	def.Sinks = slices.Clone(def.Sinks)
	def.Sinks[slices.IndexFunc(def.Sinks, func(s Sink) bool { return s.ID == changed.ID })] = changed
	compiled, err := h.e.Compile(def)
	if err != nil {
		return nil, err
	}
	s := &Shadow{
		slot: live.shadow, opts: opts.withDefaults(), maxRow: h.e.opts.MaxRowBytes, live: live.mapper,
		ended: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	// The mappers are the shadow's own, so that the UUIDs of the sink do not depend on it.
	id := bufferID(h.source, changed.ID)
	if s.current.mapper, err = h.e.mappers.get(id+" current", live.target, live.columns); err == nil {
		s.changed.mapper, err = h.e.mappers.get(id+" changed", changed.Table.Target, changed.Table.Columns)
	}
	if err != nil {
		return nil, err
	}
	s.report = ShadowReport{Source: h.source, Sink: changed.ID, Began: time.Now(), Problems: h.e.problemsOf(compiled, changed.ID)}
	s.align(live.columns, changed.Table.Columns)
	if err := h.e.shadows.add(s, live.shadow); err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

// problemsOf is Accepts for one sink.
func (e *Engine) problemsOf(d *Definition, sinkID string) []TableProblem {
	return slices.DeleteFunc(e.Accepts(d), func(p TableProblem) bool { return p.Sink != sinkID })
}

// shadows has the shadows of an engine that run.
type shadows struct {
	mu     sync.Mutex
	all    []*Shadow
	closed bool
}

// add makes s the shadow of a sink.
func (l *shadows) add(s *Shadow, slot *atomic.Pointer[Shadow]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(s *Shadow) bool { return isClosed(s.done) })
	switch {
	case l.closed:
		return ErrClosed
	case len(l.all) >= maxShadows:
		return ErrTooManyShadows
	case !slot.CompareAndSwap(nil, s):
		return ErrShadowed
	}
	l.all = append(l.all, s)
	return nil
}

// close ends all shadows, and drops what waits to be compared.
func (l *shadows) close() {
	l.mu.Lock()
	l.closed = true
	all := l.all
	l.mu.Unlock()
	for _, s := range all {
		s.drop()
		s.end(ShadowClosed)
	}
	for _, s := range all {
		<-s.done
	}
}

// endShadows ends the shadows of the sinks of old whose columns are not those of next any more.
func (e *Engine) endShadows(old, next *source) {
	if old == nil {
		return
	}
	for _, o := range old.sinks {
		s := o.shadow.Load()
		if s == nil {
			continue
		}
		same := next != nil && slices.ContainsFunc(next.sinks, func(n *sink) bool { return n.id == o.id && n.mapper == s.live })
		if !same {
			s.end(ShadowRedefined)
		}
	}
}

// end lets the shadow take no more records; the first reason counts.
func (s *Shadow) end(why ShadowEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(why)
}

func (s *Shadow) endLocked(why ShadowEnd) {
	if s.report.End == ShadowRuns {
		s.report.End, s.report.Ended = why, time.Now()
		s.slot.CompareAndSwap(s, nil)
		close(s.ended)
	}
}

// drop gives up what waits.
func (s *Shadow) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
}

func (s *Shadow) dropLocked() {
	s.abandon = true
	s.report.Dropped += int64(len(s.waiting))
	for _, r := range s.waiting {
		s.bytes -= r.size
	}
	s.waiting = nil
}

// Close ends the shadow, waits until the records that wait are compared, and returns the last report. It may be repeated.
func (s *Shadow) Close() ShadowReport {
	s.end(ShadowClosed)
	<-s.done
	return s.Report()
}

// Done returns a channel that is closed when the shadow has ended and its report is final.
func (s *Shadow) Done() <-chan struct{} { return s.done }

// Report returns what was found so far.
func (s *Shadow) Report() ShadowReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Unsampled = s.unsampled.Load()
	r.Waiting = s.taken - r.Compared - r.Dropped - r.TooLarge - r.Unreadable
	r.Seen = s.taken + r.Unsampled
	r.Columns = slices.Clone(r.Columns)
	for i := range r.Columns {
		r.Columns[i].Examples = slices.Clone(r.Columns[i].Examples)
	}
	r.Errors = slices.Clone(r.Errors)
	slices.SortStableFunc(r.Errors, func(a, b ShadowRejection) int { return cmp.Compare(b.Records, a.Records) })
	r.Problems = slices.Clone(r.Problems)
	return r
}

// offer copies a record that the sink has mapped, if there is room. Called on the live path.
func (s *Shadow) offer(rec *mapping.Record) {
	if s.opts.Sample < 1 && rand.Float64() >= s.opts.Sample {
		s.unsampled.Add(1)
		return
	}
	size := recordSize(rec)
	if !s.reserve(size) {
		return
	}
	copied, ok := copyRecord(rec)
	more := int64(len(copied.Body) - len(rec.Body)) // of structured data
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copying--
	s.bytes += more
	switch {
	case !ok:
		s.report.Unreadable++
	case s.abandon:
		s.report.Dropped++
	case size+more > s.opts.MaxBytes:
		s.report.TooLarge++
	case s.bytes > s.opts.MaxBytes:
		s.report.Dropped++
	default:
		s.waiting = append(s.waiting, shadowRecord{copied, size + more})
		size, more = 0, 0
	}
	s.bytes -= size + more
	s.signal()
}

// reserve takes the room for a copy. It counts the record, and reports whether it is to be copied.
func (s *Shadow) reserve(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report.End != ShadowRuns {
		return false
	}
	s.taken++
	switch {
	case size > s.opts.MaxBytes:
		s.report.TooLarge++
	case s.bytes+size > s.opts.MaxBytes:
		s.report.Dropped++
	case s.opts.Records > 0 && s.report.Compared+s.copying+int64(len(s.waiting)) >= s.opts.Records:
		s.report.Dropped++ // those before may be unreadable, so it has not ended yet
	default:
		s.bytes += size
		s.copying++
		return true
	}
	return false
}

func (s *Shadow) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run compares records until the shadow has ended and nothing waits.
func (s *Shadow) run() {
	defer close(s.done)
	timer := time.NewTimer(s.opts.For)
	defer timer.Stop()
	ended := s.ended
	for {
		select {
		case <-s.wake:
		case <-timer.C:
			s.end(ShadowTime)
		case <-ended:
			ended = nil // what is being copied is signalled
		}
		for s.compareNext() {
			select {
			case <-timer.C:
				s.end(ShadowTime)
			default:
			}
		}
		s.mu.Lock()
		finished := s.report.End != ShadowRuns && s.copying == 0 && len(s.waiting) == 0
		s.mu.Unlock()
		if finished {
			return
		}
	}
}

// compareNext compares the record that waits longest and reports whether there was one.
func (s *Shadow) compareNext() bool {
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		return false
	}
	r := s.waiting[0]
	s.waiting[0] = shadowRecord{}
	s.waiting = s.waiting[1:]
	s.copying++ // it does not wait any more and counts for Records
	s.mu.Unlock()

	failure := s.mapBoth(&r.rec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copying--
	s.bytes -= r.size
	if failure != "" {
		s.report.Dropped++
		s.report.Failure = cmp.Or(s.report.Failure, failure)
		s.dropLocked()
		s.endLocked(ShadowFailed)
		return false
	}
	s.count(&r.rec)
	if s.report.Compared++; s.report.Compared == s.opts.Records {
		s.endLocked(ShadowRecords)
	}
	return true
}

// mapBoth maps a record with both mappings. The result is what a panic said.
func (s *Shadow) mapBoth(rec *mapping.Record) (failure string) {
	defer func() {
		if r := recover(); r != nil {
			failure = fmt.Sprintf("%.1000v", r)
		}
	}()
	s.current.run(rec, s.maxRow)
	rec.Release() // so that the other mapping reads the body too
	s.changed.run(rec, s.maxRow)
	rec.Release()
	return ""
}
