package forebay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/forebay/forebay/internal/callspans"
	"github.com/forebay/forebay/mapping"
)

// Status is what happened to a record at one sink.
type Status uint8

const (
	// Stored means that the row is on local disk and will be in the table exactly once.
	Stored Status = iota + 1
	// Queued means that the row is in memory (SyncUnsafe) and will be on disk within Options.Buffer.SyncInterval.
	Queued
	// Rejected means that the record can never be stored by this sink as it is. Sending it again is useless.
	Rejected
	// Failed means that the record was not stored ([buffer.OverloadError]), or it is unknown whether it was (all other errors).
	// Sending it again may succeed.
	Failed
	// Quarantined means that the sink cannot map the record and keeps it in its quarantine, on local disk. Do not send it again.
	Quarantined
)

func (s Status) String() string {
	switch s {
	case Stored:
		return "stored"
	case Queued:
		return "queued"
	case Rejected:
		return "rejected"
	case Failed:
		return "failed"
	case Quarantined:
		return "quarantined"
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// SinkResult is the outcome of one record at one sink.
type SinkResult struct {
	// Sink is the sink's id.
	Sink string
	// Status tells whether the row is kept.
	Status Status
	// Replayed is set when the row was stored by an earlier call with the same key. See [Engine.IngestOnce].
	Replayed bool
	// Err says why a record was Rejected, Failed or Quarantined. It is a [*mapping.Error], a [*buffer.TooLargeError], a [*RowTooLargeError],
	// a [*buffer.OverloadError], a [*buffer.FailedError], a [*buffer.FencedError], a [*buffer.UnknownError] or, if nothing was stored, an error of the context. Otherwise nil, as for
	// what an earlier call with the same key has put into the quarantine.
	Err error
}

// lost reports whether the record is not kept.
func (s *SinkResult) lost() bool { return s.Err != nil && s.Status != Quarantined }

// Result is the outcome of one record, with one entry for each enabled sink of the source, in the order of its definition.
type Result struct {
	// Sinks is empty when no sink took the record.
	Sinks []SinkResult
	// Dropped is set when the source has no enabled sink, so the record is not kept anywhere.
	Dropped bool
}

// Err joins the errors of all sinks, each as a [*SinkError]. It returns nil when every sink kept the record.
func (r Result) Err(source string) error {
	var errs []error
	for _, s := range r.Sinks {
		if s.lost() {
			errs = append(errs, &SinkError{Source: source, Sink: s.Sink, Status: s.Status, Err: s.Err})
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// SinkError is the failure of one record at one sink. The other sinks of the source are not affected.
type SinkError struct {
	// Source and Sink are ids.
	Source, Sink string
	// Status is Rejected or Failed.
	Status Status
	// Err is the cause.
	Err error
}

func (e *SinkError) Error() string {
	return fmt.Sprintf("sink %q of source %q: record %s: %v", e.Sink, e.Source, e.Status, e.Err)
}

func (e *SinkError) Unwrap() error { return e.Err }

// Batch is records that are stored together, see [Engine.IngestAtomic].
type Batch struct {
	// Signal leaves out the sinks whose AllowedSignals do not have it. Empty means that every enabled sink takes the batch.
	Signal Signal
	// Records is iterated once. A record is read before the next one is requested, so one record may be reused for all of them. Nil means no records.
	Records iter.Seq[*mapping.Record]
	// Once makes the batch one that can be repeated, as [Engine.IngestOnce] does. Default: it has no key.
	Once Once
}

// BatchResult is the outcome of a batch that was taken.
type BatchResult struct {
	// Records is the number of records in the batch.
	Records int
	// Sinks is the number of sinks that the batch was for. With zero the records were dropped; [Stats] counts them.
	Sinks int
	// Rejected is the number of records that at least one sink can never store as they are. The other sinks have them.
	Rejected int
	// Quarantined is the number of records that at least one sink has put into its quarantine. The other sinks have them. A record
	// may be rejected by one sink and kept by another. Then both count it.
	Quarantined int
	// First is the first rejection, nil if there is none, and FirstRecord the place of its record, from 0.
	First       *SinkError
	FirstRecord int
	// Replayed is the number of records that every sink has from an earlier call with the same key.
	Replayed int
}

// add counts the outcomes of the next record. Its error says that a sink is full.
func (r *BatchResult) add(src *source, out []SinkResult) error {
	if &out[0] == &src.allStored[0] {
		return nil
	}
	replayed, rejected, quarantined := 0, false, false
	for _, s := range out {
		quarantined = quarantined || s.Status == Quarantined
		switch {
		case s.Replayed:
			replayed++
		case s.Status == Failed:
			return s.Err
		case s.Status == Rejected:
			rejected = true
			if r.First == nil {
				r.First = &SinkError{Source: src.def.ID, Sink: s.Sink, Status: Rejected, Err: s.Err}
				r.FirstRecord = r.Records
			}
		}
	}
	if rejected {
		r.Rejected++
	}
	if quarantined {
		r.Quarantined++
	}
	if replayed == len(out) {
		r.Replayed++
	}
	return nil
}

// Pending is a record that is in memory, on its way to the disk. See [Engine.Submit]. Its zero value stands for no record.
type Pending struct {
	src     *source
	results [1]Result
	first   [1]portion
	more    []portion // all of them, when the rows went in several
}

// Wait returns when the rows of the record are on local disk, or at once where all sinks are SyncUnsafe, with the result
// and the error of [Engine.Ingest]. Call it once for each record that must be acknowledged.
func (p Pending) Wait(ctx context.Context) (Result, error) { return p.wait(ctx) }

func (p *Pending) wait(ctx context.Context) (Result, error) {
	if p.src == nil {
		return p.results[0], nil
	}
	portions := p.first[:]
	if p.more != nil {
		portions = slices.Clone(p.more)
	}
	if err := p.src.await(ctx, portions, p.results[:]); err != nil {
		return Result{}, err
	}
	return p.results[0], p.results[0].Err(p.src.def.ID)
}

// spanOfResults returns the outcome for the span of a call from the results of its records. The outcome is the worst of them.
func spanOfResults(results []Result, err error) callspans.Summary {
	var sinks []string
	worst, replayed := Status(0), len(results) > 0
	for i, r := range results {
		for _, out := range r.Sinks {
			if i == 0 {
				sinks = append(sinks, out.Sink)
			}
			replayed = replayed && out.Replayed
			if order(out.Status) > order(worst) {
				worst = out.Status
			}
		}
	}
	outcome := worst.String()
	switch {
	case worst == 0 && err != nil:
		outcome = Failed.String()
	case worst == 0:
		outcome = "dropped"
	case replayed && err == nil:
		outcome = "replayed"
	}
	return callspans.Summary{Records: len(results), Sinks: sinks, Word: outcome, Err: err}
}

// order ranks outcomes from good to bad.
func order(s Status) int {
	switch s {
	case Queued:
		return 1
	case Stored:
		return 2
	case Quarantined:
		return 3
	case Rejected:
		return 4
	case Failed:
		return 5
	}
	return 0
}

// spanOfBatch returns the outcome for the span of a batch that was stored together.
func spanOfBatch(res BatchResult, source *source, err error) callspans.Summary {
	var sinks []string
	if source != nil {
		for _, k := range source.sinks {
			sinks = append(sinks, k.id)
		}
	}
	outcome := Stored.String()
	switch {
	case err != nil:
		outcome = Failed.String()
	case res.Sinks == 0:
		outcome = "dropped"
	case res.Rejected > 0:
		outcome = Rejected.String()
	case res.Quarantined > 0:
		outcome = Quarantined.String()
	}
	return callspans.Summary{Records: res.Records, Rejected: res.Rejected, Sinks: sinks, Word: outcome, Err: err}
}
