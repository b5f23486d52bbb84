package buffer

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// held is a rejected record as the committer knows it, enough to decide whether it is there, in which revision, and how many bytes
// it frees. The head and the record are read from the store by the callers who ask for them.
type held struct {
	seq            uint64
	instance       string // movedMark and the id if another engine has rejected it
	at, size       int64  // at in Unix milliseconds
	revision, edit uint32
}

// movedMark precedes the id of a record that another engine has rejected. No name of an instance begins with it.
const movedMark = "\x00"

func (h *held) id() string {
	if id, moved := strings.CutPrefix(h.instance, movedMark); moved {
		return id
	}
	return format.RejectID(h.instance, h.seq)
}

// heldOf is the state of a record that was just written or read.
func heldOf(instance string, seq uint64, r *format.Reject) held {
	return held{seq: seq, instance: instance, at: r.At, size: r.Size(), revision: r.Revision, edit: r.Edit}
}

// heldList has the rejected records of a sink, ascending. To remove one moves nothing. It stays as a gap, and the gaps go together when
// they are a quarter, so that each removal costs four moves in the mean, wherever it is. Its methods are called with Buffer.mu held.
type heldList struct {
	list []held // the first is no gap
	gaps int
	// moved has the numbers of the records that other engines have rejected, by their ids. Those records are not in the order of their times.
	moved map[string]uint64
}

func (l *heldList) len() int { return len(l.list) - l.gaps }

// oldest returns the oldest record of a list that has some.
func (l *heldList) oldest() *held {
	first := &l.list[0]
	if len(l.moved) > 0 {
		for i := range l.list {
			if h := &l.list[i]; !h.gap() && h.at < first.at {
				first = h
			}
		}
	}
	return first
}

// find returns a record, nil if it is not there. It is valid until the list changes.
func (l *heldList) find(id string) *held {
	instance, seq, ok := format.ParseRejectID(id)
	if !ok {
		return nil
	}
	if here, moved := l.moved[id]; moved {
		instance, seq = movedMark+id, here
	}
	at, ok := l.search(seq)
	if !ok || l.list[at].gap() || l.list[at].instance != instance {
		return nil
	}
	return &l.list[at]
}

func (l *heldList) search(seq uint64) (at int, found bool) {
	return slices.BinarySearchFunc(l.list, seq, func(h held, seq uint64) int { return cmp.Compare(h.seq, seq) })
}

// addMoved adds a record that another engine has rejected. Its number may be lower than the numbers of other records.
func (l *heldList) addMoved(h held) {
	if l.moved == nil {
		l.moved = map[string]uint64{}
	}
	l.moved[h.id()] = h.seq
	at, _ := l.search(h.seq)
	l.list = slices.Insert(l.list, at, h)
}

func (l *heldList) add(h held) { l.list = append(l.list, h) }

// remove removes a record of the list.
func (l *heldList) remove(h *held) {
	delete(l.moved, h.id())
	h.instance, h.size = "", 0
	for l.gaps++; len(l.list) > 0 && l.list[0].gap(); l.gaps-- { // most go in their order
		l.list = l.list[1:]
	}
	if l.gaps > len(l.list)/4 {
		l.list, l.gaps = l.clone(), 0
	}
}

// clone returns the records, without gaps.
func (l *heldList) clone() []held {
	list := make([]held, 0, l.len())
	for _, h := range l.list {
		if !h.gap() {
			list = append(list, h)
		}
	}
	return list
}

// gap reports whether the record was removed. One that was not has a size.
func (h *held) gap() bool { return h.size == 0 }

// addRejects puts the rejected records of a chunk into the batch and returns the bytes that they take. With
// QuarantineBounds.DropOldest the oldest make room for them.
func (t *txn) addRejects(batch *pebble.Batch, c *chunk) (size int64) {
	s := c.sink
	for _, r := range c.rejects {
		size += t.addReject(batch, s, &format.Reject{At: r.at, Info: r.Info}, r.Data)
	}
	t.dropOldest(s)
	return size
}

// addReject puts a record into the batch and returns the bytes that it takes. head has its time, and the known cause.
func (t *txn) addReject(batch *pebble.Batch, s *sinkState, head *format.Reject, data []byte) (size int64) {
	b := t.b
	if s.held.len() == 0 {
		t.expireAt(s, head.At)
	}
	b.mu.lastReject++
	seq := b.mu.lastReject
	head.ID, head.SinkID, head.Came = format.RejectID(b.instance, seq), s.id, int64(len(data))
	_ = batch.Set(format.RejectKey(s.num, seq), format.Encode(head), nil) // a plain batch cannot fail
	_ = batch.Set(format.RecordKey(s.num, seq, 0), data, nil)
	size = head.Size()
	s.held.add(heldOf(b.instance, seq, head))
	s.heldBytes += size
	s.rec.Quarantine.Added.Add(1, size)
	t.rejected = true
	t.touchSink(s)
	return size
}

// dropOldest makes room for records that were just added, if the bounds say so.
func (t *txn) dropOldest(s *sinkState) {
	b, q := t.b, &s.rec.Quarantine
	dropped := 0
	for q.DropOldest && s.held.len() > 1 && (s.heldBytes > q.MaxBytes || s.held.len() > q.MaxRecords) {
		t.removeHeld(s, s.held.oldest(), &q.Expired)
		dropped++
	}
	if dropped > 0 && (s.warned.IsZero() || t.now.Sub(s.warned) >= time.Hour) {
		s.warned = t.now
		size, records := q.MaxBytes, q.MaxRecords
		t.onDurable(func() {
			b.log.Warn("quarantine full", "sink", s.id, "records", dropped,
				"max_bytes", size, "max_records", records, "next", "replay or discard records, or raise the quarantine's limits")
		})
	}
}

// removeHeld deletes a record of s.held and counts it.
func (t *txn) removeHeld(s *sinkState, record *held, as *format.Count) {
	h := *record
	s.held.remove(record)
	s.heldBytes -= h.size
	t.freed += h.size
	as.Add(1, h.size)
	t.touchSink(s)
	t.addToBatch(func(batch *pebble.Batch) {
		_ = batch.Delete(format.RejectKey(s.num, h.seq), nil)
		_ = batch.Delete(format.RecordKey(s.num, h.seq, 0), nil)
		if h.edit > 0 {
			_ = batch.Delete(format.RecordKey(s.num, h.seq, h.edit), nil)
		}
	})
}

// expiryBatch bounds the records that expire in one commit.
const expiryBatch = 10_000

// expireRejects removes the records that are older than the sink allows, and sets the timer for the next one.
func (t *txn) expireRejects(s *sinkState) {
	n := 0
	for s.held.len() > 0 && n < expiryBatch {
		oldest := s.held.oldest()
		if t.now.Before(s.expiry(oldest.at)) {
			break
		}
		t.removeHeld(s, oldest, &s.rec.Quarantine.Expired)
		n++
	}
	if n > 0 {
		t.onDurable(func() {
			t.b.log.Warn("rejected records expired", "sink", s.id, "records", n, "next", "replay records before their retention ends")
		})
	}
	if s.held.len() > 0 {
		t.expireAt(s, s.held.oldest().at)
	}
}

// expiry is when a record of a time expires.
func (s *sinkState) expiry(at int64) time.Time {
	return time.UnixMilli(at).Add(s.rec.Quarantine.MaxAge)
}

// expireAt sets the timer for a record of a time.
func (t *txn) expireAt(s *sinkState, at int64) {
	end := s.expiry(at)
	t.onDurable(func() { t.b.timers.Set(timerKey{timerRejects, uint64(s.num)}, end) })
}

// resumeRejects sets the timers after an opening. Called with mu held for reading.
func (b *Buffer) resumeRejects() {
	for _, s := range b.mu.sinks {
		if s.held.len() > 0 {
			b.timers.Set(timerKey{timerRejects, uint64(s.num)}, s.expiry(s.held.oldest().at))
		}
	}
}

// recoverRejects reads the heads of all rejected records.
func (r *recovery) recoverRejects() error {
	last, err := pebblestore.Get(r.db, []byte(format.KeyRejects))
	if err != nil {
		return err
	}
	r.lastReject = format.ParseRejects(last)
	names := map[string]string{} // thousands of records share one
	return eachRecord(r.db, format.PrefixReject, func(key, value []byte) error {
		num, seq, ok := format.ParseRejectKey(key)
		var head format.Reject
		if !ok || format.Decode(value, &head) != nil {
			return pebblestore.Damaged("rejected record %x cannot be read", key)
		}
		instance, named, ok := format.ParseRejectID(head.ID)
		if !ok || named != seq && !head.Moved {
			return pebblestore.Damaged("rejected record %x has the id %q", key, head.ID)
		}
		s := r.byNum[num]
		if s == nil {
			return pebblestore.Damaged("rejected record %x: sink %d is unknown", key, num)
		}
		if head.Moved {
			instance = movedMark + head.ID
		} else if name, ok := names[instance]; ok {
			instance = name
		} else {
			names[instance] = instance
		}
		h := heldOf(instance, seq, &head)
		h.at = r.resumed(time.UnixMilli(h.at)).UnixMilli()
		r.local += h.size
		r.lastReject = max(r.lastReject, seq)
		switch {
		case head.From != nil:
			s.arriving = append(s.arriving, arriving{h, *head.From})
			return nil
		case head.Moved:
			s.held.addMoved(h)
		default:
			s.held.add(h)
		}
		s.heldBytes += h.size
		return nil
	})
}
