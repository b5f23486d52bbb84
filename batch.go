package forebay

import (
	"iter"

	"github.com/forebay/forebay/mapping"
)

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
