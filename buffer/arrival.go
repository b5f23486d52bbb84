package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Rejected records move from one engine to another in three steps, each of them durable before the next one:
//
//	ReceiveRejected   the records are here too, but in no list: no caller can replay or discard them here
//	the decision      is the caller's, outside of both engines, in one atomic write
//	EndArrival        the records join the quarantine, or are deleted
//
// Before the decision the records are the other engine's, after it they are this one's. So a crash at any point leaves each record in one
// quarantine, once the decision is read. A record keeps its id, its age, its bytes and its edits.

// arriving is a rejected record of another engine that is not in the quarantine yet.
type arriving struct {
	held
	from format.Arrival
}

// Mover says who moves the rejected records of an instance. The buffer only keeps it, for [Moves.Arrivals].
type Mover struct {
	// Instance names the instance whose records move. Session and Epoch identify its owner.
	Instance, Session string
	Epoch             uint64
}

// Arrival says how many records and files of another engine arrive.
type Arrival struct {
	// Mover is the argument of [Moves.ReceiveRejected].
	Mover
	Records int
	// Files counts the files that [Moves.ReceiveFiles] has copied, and Positions the positions that [Moves.ReceivePositions] has copied.
	Files, Positions int
}

// Arrivals returns the records, files and positions that arrive, by instance and epoch.
func (m Moves) Arrivals() []Arrival {
	b := m.b
	b.mu.RLock()
	defer b.mu.RUnlock()
	counts := map[format.Arrival]*Arrival{}
	of := func(from format.Arrival) *Arrival {
		if counts[from] == nil {
			counts[from] = &Arrival{Mover: Mover(from)}
		}
		return counts[from]
	}
	for _, s := range b.mu.sinks {
		for i := range s.arriving {
			of(s.arriving[i].from).Records++
		}
		for i := range s.arrivingFiles {
			of(s.arrivingFiles[i].rec.From).Files++
		}
		for key, value := range s.rec.Positions {
			if _, _, arrives := parseArriving(key); !arrives {
				continue
			}
			var p format.ArrivingPosition
			if format.Decode(value, &p) == nil { // else EndArrival says so
				of(p.From).Positions++
			}
		}
	}
	list := make([]Arrival, 0, len(counts))
	for _, a := range counts {
		list = append(list, *a)
	}
	slices.SortFunc(list, func(a, b Arrival) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Epoch, b.Epoch))
	})
	return list
}

// arrivalRecords and keepBytes bound what one commit copies. A larger record is copied alone.
const arrivalRecords = 1000

// ReceiveRejected copies the rejected records of all sinks of another buffer into this one, durably, and returns how many there are. The caller
// lets nothing change them until EndArrival. They count in no quarantine of this buffer until then. ReceiveRejected first deletes the copies that an earlier
// call made for the instance.
//
// It fails with an [*OverloadError] if a quarantine, or the disk, has no room for all records of a sink, a [*FailedError], [ErrClosed] or the error
// of ctx. After an error call EndArrival, or repeat the call.
//
// For the files that wait see [Moves.ReceiveFiles], and for positions [Moves.ReceivePositions].
func (m Moves) ReceiveRejected(ctx context.Context, other *Buffer, by Mover) (records int, err error) {
	if other == nil || other.store == nil || by.Instance == "" {
		return 0, errors.New("buffer: the records of an open buffer move, and the mover names its instance")
	}
	if err := m.EndArrival(ctx, by.Instance, false); err != nil {
		return 0, err
	}
	if err := m.b.upgradeFor(format.Others); err != nil {
		return 0, err
	}
	other.mu.RLock()
	lists := map[string][]held{}
	nums := map[string]uint32{}
	for id, s := range other.mu.sinks {
		if s.held.len() > 0 {
			lists[id], nums[id] = s.held.clone(), s.num
		}
	}
	other.mu.RUnlock()
	from := format.Arrival(by)
	for id, list := range lists {
		n, err := m.b.receiveSink(ctx, other, id, nums[id], list, from)
		if err != nil {
			return 0, fmt.Errorf("buffer: receive %d rejected records of sink %q from instance %s: %w", len(list), id, by.Instance, err)
		}
		records += n
	}
	return records, nil
}

// receiveSink copies the records of one sink.
func (b *Buffer) receiveSink(ctx context.Context, other *Buffer, sinkID string, num uint32, list []held, from format.Arrival) (copied int, err error) {
	if err := b.roomToReceive(ctx, sinkID, list); err != nil {
		return 0, err
	}
	for len(list) > 0 {
		var records []arrivingRecord
		size := int64(0)
		for len(list) > 0 && len(records) < arrivalRecords && (size == 0 || size+list[0].size <= keepBytes) {
			r, err := other.recordToMove(num, list[0].seq)
			if err != nil {
				return 0, err
			}
			list = list[1:]
			if r.head == nil {
				continue // it has expired
			}
			r.head.Moved, r.head.From = true, &from
			records, size = append(records, r), size+r.head.Size()
		}
		if err := b.receiveSome(ctx, sinkID, records, size); err != nil {
			return 0, err
		}
		copied += len(records)
	}
	return copied, nil
}

// roomToReceive makes the sink if it was never defined here, and looks whether its quarantine has room for a list.
func (b *Buffer) roomToReceive(ctx context.Context, sinkID string, list []held) error {
	size := int64(0)
	for i := range list {
		size += list[i].size
	}
	var full error
	err := b.do(ctx, func(t *txn) {
		s := t.sinkNamed(sinkID)
		t.upgrade(format.Others)
		q := &s.rec.Quarantine
		if q.MaxAge == 0 {
			boundQuarantine(q, QuarantineBounds{}.withDefaults(b.opts.Tuning))
			t.touchSink(s)
		}
		if !q.DropOldest && (s.heldBytes+size > q.MaxBytes || s.held.len()+len(list) > q.MaxRecords) {
			full = &OverloadError{Resource: "quarantine", Used: s.heldBytes, Limit: q.MaxBytes, RetryAfter: time.Minute}
		}
	})
	if err != nil {
		return err // the committer may still set full
	}
	return full
}

// arrivingRecord is a record as the other engine has it, both as it arrived and as it was edited last.
type arrivingRecord struct {
	head         *format.Reject
	came, edited []byte
}

// recordToMove reads a record of the quarantine. head is nil if the record has left the quarantine.
func (b *Buffer) recordToMove(num uint32, seq uint64) (r arrivingRecord, err error) {
	err = b.readStore(func(db *pebble.DB) error {
		value, err := pebblestore.Get(db, format.RejectKey(num, seq))
		if err != nil || value == nil {
			return err
		}
		r.head = &format.Reject{}
		if err := format.Decode(value, r.head); err != nil {
			return err
		}
		if r.came, err = pebblestore.Get(db, format.RecordKey(num, seq, 0)); err == nil && r.head.Edit > 0 {
			r.edited, err = pebblestore.Get(db, format.RecordKey(num, seq, r.head.Edit))
		}
		if err == nil && (int64(len(r.came)) != r.head.Came || int64(len(r.edited)) != r.head.Edited) {
			err = pebblestore.Damaged("rejected record %s: %d bytes are stored, and %d of its edit; its head says %d and %d",
				r.head.ID, len(r.came), len(r.edited), r.head.Came, r.head.Edited)
			b.reportDamage(err)
		}
		return err
	})
	return r, err
}

// receiveSome copies records in one commit.
func (b *Buffer) receiveSome(ctx context.Context, sinkID string, records []arrivingRecord, size int64) error {
	if len(records) == 0 {
		return nil
	}
	if err := b.admission.admit(ctx, nil, size, false, false); err != nil {
		return err
	}
	defer b.admission.giveBack(size)
	return b.withSink(ctx, sinkID, func(t *txn, s *sinkState) {
		t.rejected = true
		for _, r := range records {
			b.mu.lastReject++
			seq, size := b.mu.lastReject, r.head.Size()
			h := heldOf(movedMark+r.head.ID, seq, r.head)
			s.arriving = append(s.arriving, arriving{h, *r.head.From})
			t.freed -= size
			value := format.Encode(r.head)
			t.addToBatch(func(batch *pebble.Batch) {
				_ = batch.Set(format.RejectKey(s.num, seq), value, nil) // a plain batch cannot fail
				_ = batch.Set(format.RecordKey(s.num, seq, 0), r.came, nil)
				if r.head.Edit > 0 {
					_ = batch.Set(format.RecordKey(s.num, seq, r.head.Edit), r.edited, nil)
				}
			})
		}
	})
}

// EndArrival ends the arrival of the records, files and positions of an instance, durably. With accept the records join the quarantines of their
// sinks, the files are imported by this buffer, and callers find the positions. Otherwise they are deleted. It does nothing if nothing arrives from there. After an error repeat it with the same
// decision.
func (m Moves) EndArrival(ctx context.Context, instance string, accept bool) error {
	b := m.b
	b.mu.RLock()
	var ids []string
	for id, s := range b.mu.sinks {
		if slices.ContainsFunc(s.arriving, func(a arriving) bool { return a.from.Instance == instance }) {
			ids = append(ids, id)
		}
	}
	b.mu.RUnlock()
	var errs []error
	for _, id := range ids {
		err := error(nil)
		if accept {
			err = b.acceptArrival(ctx, id, instance)
		} else {
			err = b.withSink(ctx, id, func(t *txn, s *sinkState) {
				t.dropArriving(s, func(a *arriving) bool { return a.from.Instance == instance })
			})
		}
		errs = append(errs, err)
	}
	if accept {
		errs = append(errs, b.acceptFiles(ctx, instance))
	} else {
		errs = append(errs, b.dropFiles(ctx, instance))
	}
	return errors.Join(append(errs, b.endPositions(ctx, instance, accept))...)
}

// dropArriving deletes arriving records.
func (t *txn) dropArriving(s *sinkState, which func(*arriving) bool) {
	s.arriving = slices.DeleteFunc(s.arriving, func(a arriving) bool {
		if !which(&a) {
			return false
		}
		t.freed += a.size
		t.addToBatch(func(batch *pebble.Batch) {
			_ = batch.Delete(format.RejectKey(s.num, a.seq), nil)
			_ = batch.Delete(format.RecordKey(s.num, a.seq, 0), nil)
			if a.edit > 0 {
				_ = batch.Delete(format.RecordKey(s.num, a.seq, a.edit), nil)
			}
		})
		return true
	})
}

// acceptArrival lets the arriving records of one sink join the quarantine, many in a commit.
func (b *Buffer) acceptArrival(ctx context.Context, sinkID, instance string) error {
	for {
		var next []uint64
		var num uint32
		b.mu.RLock()
		if s := b.mu.sinks[sinkID]; s != nil {
			num = s.num
			for i := range s.arriving {
				if a := &s.arriving[i]; a.from.Instance == instance && len(next) < arrivalRecords {
					next = append(next, a.seq)
				}
			}
		}
		b.mu.RUnlock()
		if len(next) == 0 {
			return nil
		}
		heads := map[uint64][]byte{}
		if err := b.readStore(func(db *pebble.DB) error {
			for _, seq := range next {
				value, err := pebblestore.Get(db, format.RejectKey(num, seq))
				var head format.Reject
				if err == nil && value != nil {
					if err = format.Decode(value, &head); err == nil {
						head.From = nil
						heads[seq] = format.Encode(&head)
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("buffer: read the rejected records that arrive in sink %q from instance %s: %w", sinkID, instance, err)
		}
		if err := b.withSink(ctx, sinkID, func(t *txn, s *sinkState) { t.acceptArriving(s, heads) }); err != nil {
			return err
		}
	}
}

// acceptArriving moves arriving records with their new heads into the quarantine.
func (t *txn) acceptArriving(s *sinkState, heads map[uint64][]byte) {
	s.arriving = slices.DeleteFunc(s.arriving, func(a arriving) bool {
		value, ok := heads[a.seq]
		if !ok {
			return false
		}
		s.held.addMoved(a.held)
		s.heldBytes += a.size
		s.rec.Quarantine.Added.Add(1, a.size)
		t.addToBatch(func(batch *pebble.Batch) { _ = batch.Set(format.RejectKey(s.num, a.seq), value, nil) })
		return true
	})
	t.touchSink(s)
	t.dropOldest(s)
	if s.held.len() > 0 {
		t.expireAt(s, s.held.oldest().at)
	}
}
