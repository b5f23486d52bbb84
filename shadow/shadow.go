// Package shadow compares a changed mapping of a sink with the current one, on the records that the sink takes. An engine starts a shadow:
//
//	s, err := engine.Sink("web", "users").Shadow(ctx, changed, shadow.Options{For: time.Hour})
//	if err != nil {
//		return err
//	}
//	<-s.Done()
//	report := s.Report()
//
// Callers of the live path copy their record. One goroutine of the shadow runs both mappings, so callers never wait for it. Nothing is stored.
//
// A column that both mappings define alike has the same cell in both. So for a record that the sink has accepted, only the other columns are mapped.
package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/mapping"
)

var (
	// ErrShadowed is returned for a sink that has a shadow already.
	ErrShadowed = errors.New("the sink has a shadow already: stop it first")
	// ErrTooManyShadows is returned while the engine has 8 shadows.
	ErrTooManyShadows = errors.New("an engine may have at most 8 shadows at a time: stop one first")
)

// Options bound a shadow. The zero value works.
type Options struct {
	// For is how long the shadow runs, up to 24 hours. Default: 10 minutes.
	For time.Duration
	// Records ends the shadow after so many compared records. Default: it ends by time alone.
	Records int64
	// Sample is the share of records that is compared, drawn at random, above 0, up to 1. Default: 1, all.
	Sample float64
	// MaxBytes bounds the copies of records that wait to be compared, in bytes, up to 64 MiB. At the bound, arriving records are
	// dropped and counted. Default: 4 MiB.
	MaxBytes int64
}

// Limits of Options, of the shadows of an engine, and of a report.
const (
	maxTime      = 24 * time.Hour
	maxBytes     = 64 << 20
	maxShadows   = 8
	maxExamples  = 3   // for each column
	exampleBytes = 256 // of each value of an example
	maxErrors    = 50  // groups
)

func (o Options) withDefaults() Options {
	o.For = cmp.Or(o.For, 10*time.Minute)
	o.Sample = cmp.Or(o.Sample, 1)
	o.MaxBytes = cmp.Or(o.MaxBytes, 4<<20)
	return o
}

// Validate reports all problems at once. Zero fields count as their defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.For < 0 || o.For > maxTime {
		report("ShadowOptions.For is %v, allowed is up to %v", o.For, maxTime)
	}
	if o.Records < 0 {
		report("ShadowOptions.Records is %d, must not be negative", o.Records)
	}
	if !(o.Sample > 0 && o.Sample <= 1) { // also NaN
		report("ShadowOptions.Sample is %v, allowed is above 0 up to 1", o.Sample)
	}
	if o.MaxBytes < 0 || o.MaxBytes > maxBytes {
		report("ShadowOptions.MaxBytes is %d, allowed is up to %d", o.MaxBytes, maxBytes)
	}
	return errors.Join(problems...)
}

// Shadow maps the records of a sink with a changed mapping too, and compares the rows. It is safe for concurrent use.
type Shadow struct {
	slot   *Slot
	opts   Options
	maxRow int
	live   *mapping.Mapper // of the sink
	whole  sides           // all columns
	part   *sides          // the columns that differ, nil if a part cannot be mapped alone
	reads  headers

	ended chan struct{} // closed when no more records are taken
	done  chan struct{} // closed when all that were taken are compared or dropped
	wake  chan struct{} // has room for one: something waits, or the shadow may have finished

	unsampled atomic.Int64

	mu      sync.Mutex
	waiting []*waitingRecord
	free    []*waitingRecord // of compared records
	bytes   int64            // of the records that are open
	spare   int64            // bytes of free
	open    int64            // records that are being copied, wait, or are being compared
	taken   int64            // for Records
	timed   int64            // compared records with both times
	times   [2]time.Duration // of them
	abandon bool             // waiting records are dropped
	report  Report

	batch []*waitingRecord // of the goroutine that compares
}

// timeEvery is how many records are compared for each one that is mapped with all columns, so that the report has the times of both mappings.
const timeEvery = 16

// waitingRecord is the copy of a record. size is its share of Shadow.bytes. live is the size of its row, or -1 if the sink has rejected it.
type waitingRecord struct {
	rec  mapping.Record
	size int64
	live int
	body []byte
	head http.Header
}

// pair has the places of a column in the rows of the two mappings, -1 for none, and in the report.
type pair struct {
	current, changed, report int
	secret                   bool
}

// end stops the intake of the shadow. The first reason counts.
func (s *Shadow) end(why End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(why)
}

func (s *Shadow) endLocked(why End) {
	if s.report.End == Runs {
		s.report.End, s.report.Ended = why, time.Now()
		s.slot.shadow.CompareAndSwap(s, nil)
		close(s.ended)
	}
}

// drop discards the waiting records.
func (s *Shadow) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
}

func (s *Shadow) dropLocked() {
	s.abandon = true
	for _, r := range s.waiting {
		s.settle(r.size)
		s.report.Dropped++
	}
	s.waiting = nil
}

// settle gives up the room of a record that is no longer open. Called with mu held.
func (s *Shadow) settle(size int64) {
	s.open--
	s.bytes -= size
	if s.report.End != Runs {
		s.signal()
	}
}

// Close ends the shadow, waits until the waiting records are compared, and returns the final report. It may be repeated.
func (s *Shadow) Close() Report {
	s.end(Closed)
	<-s.done
	return s.Report()
}

// Done returns a channel that is closed when the shadow has ended and its report is final.
func (s *Shadow) Done() <-chan struct{} { return s.done }

// Report returns the result so far.
func (s *Shadow) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Unsampled = s.unsampled.Load()
	if s.timed > 0 {
		share := float64(r.Compared) / float64(s.timed)
		r.CurrentTime, r.ChangedTime = time.Duration(float64(s.times[0])*share), time.Duration(float64(s.times[1])*share)
	}
	r.Waiting = s.taken - r.Compared - r.Dropped - r.TooLarge - r.Unreadable
	r.Seen = s.taken + r.Unsampled
	r.Columns = slices.Clone(r.Columns)
	for i := range r.Columns {
		r.Columns[i].Examples = slices.Clone(r.Columns[i].Examples)
	}
	r.Errors = slices.Clone(r.Errors)
	slices.SortStableFunc(r.Errors, func(a, b Rejection) int { return cmp.Compare(b.Records, a.Records) })
	r.Problems = slices.Clone(r.Problems)
	return r
}

// offer copies a record that the sink has mapped, if there is room. live is the size of its row, or -1 if the sink has rejected it. Called on the
// live path.
func (s *Shadow) offer(rec *mapping.Record, live int) {
	if s.opts.Sample < 1 && rand.Float64() >= s.opts.Sample {
		s.unsampled.Add(1)
		return
	}
	size := s.reads.sizeOf(rec)
	r := s.reserve(size)
	if r == nil {
		return
	}
	ok := s.reads.copy(r, rec)
	r.live, r.size = live, size+int64(len(r.rec.Body)-len(rec.Body)) // structured data has become longer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += r.size - size
	switch {
	case !ok:
		s.report.Unreadable++
	case s.abandon:
		s.report.Dropped++
	case r.size > s.opts.MaxBytes:
		s.report.TooLarge++
	case s.bytes > s.opts.MaxBytes:
		s.report.Dropped++
	default:
		if s.waiting = append(s.waiting, r); len(s.waiting) == 1 {
			s.signal()
		}
		return
	}
	s.settle(r.size)
}

// reserve takes the room for a copy. It counts the record, and returns nil if the record is not copied.
func (s *Shadow) reserve(size int64) *waitingRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report.End != Runs {
		return nil
	}
	s.taken++
	switch {
	case size > s.opts.MaxBytes:
		s.report.TooLarge++
		return nil
	case s.bytes+size > s.opts.MaxBytes:
		s.report.Dropped++
		return nil
	case s.opts.Records > 0 && s.report.Compared+s.open >= s.opts.Records:
		s.report.Dropped++ // earlier records may be unreadable, so the shadow has not ended yet
		return nil
	}
	s.bytes += size
	s.open++
	if last := len(s.free) - 1; last >= 0 {
		r := s.free[last]
		s.free = s.free[:last]
		s.spare -= r.size
		return r
	}
	return new(waitingRecord)
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
			s.end(Time)
		case <-ended:
			ended = nil // a record that is still being copied signals s.wake
		}
		for s.compareWaiting() {
			select {
			case <-timer.C:
				s.end(Time)
			default:
			}
		}
		s.mu.Lock()
		finished := s.report.End != Runs && s.open == 0
		s.mu.Unlock()
		if finished {
			return
		}
	}
}

// compareWaiting compares the records that wait and reports whether there were some.
func (s *Shadow) compareWaiting() bool {
	s.mu.Lock()
	s.batch, s.waiting = s.waiting, s.batch[:0]
	s.mu.Unlock()
	for _, r := range s.batch {
		s.compare(r)
	}
	some := len(s.batch) > 0
	clear(s.batch)
	return some
}

// maxFreeBody is the largest memory of a compared record that is used again.
const maxFreeBody = 64 << 10

// compare compares a record, unless the shadow no longer compares.
func (s *Shadow) compare(r *waitingRecord) {
	s.mu.Lock()
	abandon, whole := s.abandon, s.report.Compared%timeEvery == 0
	s.mu.Unlock()
	var with *sides
	var failure string
	if !abandon {
		with, failure = s.mapBoth(r, whole)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.settle(r.size)
	switch {
	case abandon:
		s.report.Dropped++
		return
	case failure != "":
		s.report.Dropped++
		s.report.Failure = cmp.Or(s.report.Failure, failure)
		s.dropLocked()
		s.endLocked(Failed)
		return
	}
	with.count(&s.report, &r.rec)
	if with == &s.whole {
		s.timed++
		s.times[0] += with.current.took
		s.times[1] += with.changed.took
	}
	if s.report.Compared++; s.report.Compared == s.opts.Records {
		s.endLocked(Records)
	}
	if s.bytes+s.spare <= s.opts.MaxBytes && cap(r.body) <= maxFreeBody {
		s.free = append(s.free, r)
		s.spare += r.size
	}
}

// mapBoth maps a record with both mappings. It maps the columns that differ if that tells all, and otherwise all. failure is the text of a panic,
// or empty.
func (s *Shadow) mapBoth(r *waitingRecord, whole bool) (with *sides, failure string) {
	defer func() {
		if r := recover(); r != nil {
			failure = fmt.Sprintf("%.1000v", r)
		}
	}()
	if s.part != nil && !whole && r.live >= 0 {
		// The columns that are alike have cells. The row of the changed mapping is too large only if these cells and the others are.
		if s.part.run(&r.rec, s.maxRow); r.live+len(s.part.changed.row) <= s.maxRow {
			return s.part, ""
		}
	}
	s.whole.run(&r.rec, s.maxRow)
	return &s.whole, ""
}
