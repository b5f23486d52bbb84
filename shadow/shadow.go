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
package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
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
	slot    *Slot
	opts    Options
	maxRow  int
	live    *mapping.Mapper // of the sink
	current side            // with the columns of live
	changed side
	columns []pair // in the order of the report

	ended chan struct{} // closed when no more records are taken
	done  chan struct{} // closed when all that were taken are compared or dropped
	wake  chan struct{} // has room for one: something waits

	unsampled atomic.Int64

	mu      sync.Mutex
	waiting []waitingRecord
	bytes   int64 // of waiting, and of records that are being copied
	copying int64
	taken   int64 // for Records
	abandon bool  // waiting records are dropped
	report  Report
}

// waitingRecord is the copy of a record. size is its share of Shadow.bytes.
type waitingRecord struct {
	rec  mapping.Record
	size int64
}

// pair has the places of a column in the rows of the two mappings, -1 for none.
type pair struct {
	current, changed int
	secret           bool
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
	s.report.Dropped += int64(len(s.waiting))
	for _, r := range s.waiting {
		s.bytes -= r.size
	}
	s.waiting = nil
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
		s.waiting = append(s.waiting, waitingRecord{copied, size + more})
		size, more = 0, 0
	}
	s.bytes -= size + more
	s.signal()
}

// reserve takes the room for a copy. It counts the record, and reports whether it is to be copied.
func (s *Shadow) reserve(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report.End != Runs {
		return false
	}
	s.taken++
	switch {
	case size > s.opts.MaxBytes:
		s.report.TooLarge++
	case s.bytes+size > s.opts.MaxBytes:
		s.report.Dropped++
	case s.opts.Records > 0 && s.report.Compared+s.copying+int64(len(s.waiting)) >= s.opts.Records:
		s.report.Dropped++ // earlier records may be unreadable, so the shadow has not ended yet
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
			s.end(Time)
		case <-ended:
			ended = nil // a record that is still being copied signals s.wake
		}
		for s.compareNext() {
			select {
			case <-timer.C:
				s.end(Time)
			default:
			}
		}
		s.mu.Lock()
		finished := s.report.End != Runs && s.copying == 0 && len(s.waiting) == 0
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
	s.waiting[0] = waitingRecord{}
	s.waiting = s.waiting[1:]
	s.copying++ // it no longer waits and counts for Records
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
		s.endLocked(Failed)
		return false
	}
	s.count(&r.rec)
	if s.report.Compared++; s.report.Compared == s.opts.Records {
		s.endLocked(Records)
	}
	return true
}

// mapBoth maps a record with both mappings. The result is the text of a panic, or empty.
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
