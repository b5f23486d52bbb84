package buffer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Key identifies a call, so that a repeated call is recognized. It is a hash of everything that distinguishes the call from
// others. Calls with equal keys count as one call, so use a hash without known collisions.
type Key [16]byte

// Receipt says what an earlier call with the same key stored at one sink.
type Receipt struct {
	// SinkID is the sink.
	SinkID string
	// At is when the rows were accepted.
	At time.Time
	// Data is the Rows.Receipt that the rows were appended with.
	Data []byte
	// Copied says that the rows were appended to another buffer. See [Moves.ReceiveReceipts].
	Copied bool
}

// Claim is the turn of one call with a key. Other calls with the same key wait for it. The turn ends when Release was called
// and the outcome of all rows appended under the claim is known, so the next call finds everything that is stored.
//
// Only one goroutine may use a claim. The design that lost was a lock of package keylock for the key. It costs each call four
// allocations, and an uncontended turn costs none. Also, a lock ends when its holder releases it, a turn with the last of its
// receipts.
type Claim struct {
	b     *Buffer
	key   Key
	found []Receipt
	part  uint32 // of the next receipt
	// stored are the receipts of the key that are in the store, as far as the turn knows. Guarded by receipts.mu once rows were appended.
	stored []storedReceipt
	few    [2]storedReceipt // the memory of stored, for most calls
	// left counts the pending parts of the turn, which are its holder and each receipt that is not on disk yet.
	left     atomic.Int32
	released bool
	done     chan struct{} // closed at the end of the turn, nil without a waiter. Guarded by receipts.mu
}

// Claim waits for the turn of a call with a key and looks up what earlier calls with that key stored. Rows appended with
// Rows.Claim and Rows.Receipt are written in one batch with their receipt. After a crash both exist or neither does.
// Receipts are kept for Tuning.KeyRetention, within the bounds Tuning.MaxKeys and MaxKeyBytes.
//
// The caller must call Release. Errors: [*FailedError], [ErrClosed], the error of ctx.
func (b *Buffer) Claim(ctx context.Context, key Key) (*Claim, error) {
	for {
		epoch := b.store.Now().Epoch
		if f := b.failure(); f != nil {
			return nil, f
		}
		c, segments, wait := b.receipts.begin(b, key)
		if wait != nil {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		var err error
		if len(segments) > 0 {
			err = b.findReceipts(c, segments)
		}
		// The store may have failed since the first check. The outcome of an earlier call may then be unknown until the store
		// is open again.
		if f := b.failure(); f != nil {
			err = f
		} else if err == nil && b.store.Now().Epoch != epoch {
			c.Release()
			continue
		}
		if err != nil {
			c.Release()
			return nil, err
		}
		return c, nil
	}
}

// Known returns what earlier calls with a key stored, without waiting for a turn. running says that a call with the key has the turn, so its rows may
// be stored later. Known is for the other engines of a service, where the call may be repeated. It fails as Claim does.
func (b *Buffer) Known(key Key) (list []Receipt, running bool, err error) {
	for {
		epoch := b.store.Now().Epoch
		if f := b.failure(); f != nil {
			return nil, false, f
		}
		running, segments := b.receipts.look(key)
		look := &Claim{b: b, key: key}
		if len(segments) > 0 {
			err = b.findReceipts(look, segments)
		}
		if f := b.failure(); f != nil {
			return nil, false, f
		}
		if err != nil || b.store.Now().Epoch == epoch {
			return look.found, running, err
		}
	}
}

// Receipts returns what earlier calls with the key stored. A sink may have several receipts, for different rows. The caller
// must not modify them.
func (c *Claim) Receipts() []Receipt { return c.found }

// Release ends the call. The caller appends no more rows under the claim. It may be repeated.
func (c *Claim) Release() {
	if !c.released {
		c.released = true
		c.ended()
	}
}

// Forget removes the receipts of the key, both the receipts that the turn found and the receipts that it stored. The caller knows that the
// call will not be repeated. Forget takes effect for the next turn at once. The store deletes the receipts with a commit that begins at least
// forgetAfter later, or when the buffer closes. After an earlier crash the receipts still exist. Call Forget before Release, after the waits
// for all rows.
func (c *Claim) Forget() { c.forget(c.b.now().Add(forgetAfter)) }

// Erase is Forget for a call that may be repeated, whose rows a repetition stores again. The store deletes the receipts with its next commit. See
// [Buffer.Sync].
func (c *Claim) Erase() { c.forget(time.Time{}) }

func (c *Claim) forget(after time.Time) {
	r := &c.b.receipts
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(c.stored) == 0 {
		return
	}
	for _, s := range c.stored {
		r.remove(s, c.key)
	}
	i := len(r.forget)
	for ; i > 0 && after.Before(r.forget[i-1].after); i-- {
	}
	r.forget = slices.Insert(r.forget, i, forgotten{key: c.key, receipts: c.stored, after: after})
	if r.part = max(r.part, c.part); r.part >= format.ReceiptCopy/2 {
		r.part = 0 // far below the numbers of the receipts to be deleted
	}
	c.stored = nil
}

// forgetAfter is how long the store keeps the receipts of a call whose response was written. A crash of the machine loses a response that has not
// left the machine yet.
const forgetAfter = time.Second

// storedReceipt is the place of a receipt in the store.
type storedReceipt struct {
	segment uint64
	sink    uint32
	part    uint32
	size    int64 // of the record in the store, before compression
}

// forgotten contains the receipts of a call that the store no longer needs.
type forgotten struct {
	key      Key
	receipts []storedReceipt
	after    time.Time
}

// ended notes that the holder or one receipt is done. The last one ends the turn.
func (c *Claim) ended() {
	if c.left.Add(-1) > 0 {
		return
	}
	r := &c.b.receipts
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.turns, c.key)
	if c.done != nil {
		close(c.done)
	}
}

// note is a receipt on its way to the disk.
type note struct {
	claim  *Claim
	part   uint32
	value  []byte        // without its head until the committer has it
	stored storedReceipt // set by the committer
}

// noteOverhead is more than a receipt takes in memory in addition to its bytes.
const noteOverhead = 256

// noteSize is the size of the rows' receipt in Tuning.MaxPendingBytes.
func (r *Rows) noteSize() int64 {
	if r.Claim == nil {
		return 0
	}
	return noteOverhead + int64(len(r.Receipt))
}

// newNote makes the receipt of rows. It belongs to their chunk from then on.
func newNote(r *Rows, at int64) note {
	c := r.Claim
	n := note{claim: c, part: c.part, value: append(make([]byte, format.ReceiptHeadSize, format.ReceiptHeadSize+len(r.Receipt)), r.Receipt...)}
	format.PutReceiptTime(n.value, at)
	c.part++
	c.left.Add(1)
	return n
}

// receipts holds the known keys in memory. The receipts themselves are on disk and are read when a key is repeated.
//
// Keys are grouped into segments by time. A segment expires as a whole. Its keys are adjacent in the store, so one range
// deletion removes them all, at the same cost for one receipt as for a million. The design that lost was to expire each
// receipt by itself, which needs a second write for every call.
type receipts struct {
	mu       sync.Mutex
	turns    map[Key]*Claim
	segments []*segment // ascending
	keys     int        // in all segments
	bytes    int64
	// forget waits for a commit that deletes its receipts, in the order of its times. part is above the numbers of all receipts in forget, so
	// that the commit never deletes a newer receipt with the same key.
	forget []forgotten
	part   uint32

	// forgotten counts the keys that were forgotten before the end of their retention. warned is when that was last logged.
	forgotten int64
	warned    time.Time
}

// segment holds the keys of one period.
type segment struct {
	num   uint64    // about its start in Unix ms, always ascending, even when the clock is set back
	from  time.Time // when it began
	keys  map[Key]struct{}
	bytes int64 // in the store, before compression
}

// segmentParts is how many segments share the retention and each bound. A key is kept at most 1/segmentParts longer than the
// retention, and a bound that is reached forgets 1/segmentParts of the keys at once.
const segmentParts = 16

// begin starts the turn of a key and returns the segments that have the key. When another call has the turn, it returns a
// channel that is closed at the end of that turn.
func (r *receipts) begin(b *Buffer, key Key) (c *Claim, segments []uint64, wait <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.turns[key]; before != nil {
		if before.done == nil {
			before.done = make(chan struct{})
		}
		return nil, nil, before.done
	}
	if r.turns == nil {
		r.turns = make(map[Key]*Claim)
	}
	c = &Claim{b: b, key: key, part: r.part}
	c.stored = c.few[:0]
	c.left.Store(1)
	r.turns[key] = c
	return c, r.segmentsWith(key), nil
}

// look returns whether a call has the turn of a key, and the segments that have the key.
func (r *receipts) look(key Key) (running bool, segments []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns[key] != nil, r.segmentsWith(key)
}

// segmentsWith returns the segments that have a key. Called with mu held.
func (r *receipts) segmentsWith(key Key) (segments []uint64) {
	for _, s := range r.segments {
		if _, ok := s.keys[key]; ok {
			segments = append(segments, s.num)
		}
	}
	return segments
}

// replace installs the segments that were read from a store. Turns continue.
func (r *receipts) replace(segments []*segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.segments, r.keys, r.bytes = segments, 0, 0
	for _, s := range segments {
		r.keys += len(s.keys)
		r.bytes += s.bytes
	}
	for _, f := range r.forget {
		for _, s := range f.receipts {
			r.remove(s, f.key)
		}
	}
}

// finish records the receipts of a commit as known if they are stored, and ends their part of the turns.
func (r *receipts) finish(notes []note, stored bool) {
	if len(notes) == 0 {
		return
	}
	if stored {
		r.mu.Lock()
		for _, n := range notes {
			r.add(n.stored.segment, n.claim.key)
			n.claim.stored = append(n.claim.stored, n.stored)
		}
		r.mu.Unlock()
	}
	for _, n := range notes {
		n.claim.ended()
	}
}

// add records a key as known. Called with mu held.
func (r *receipts) add(num uint64, key Key) {
	for i := len(r.segments) - 1; i >= 0; i-- { // one of the last
		s := r.segments[i]
		if s.num != num {
			continue
		}
		if _, ok := s.keys[key]; !ok {
			s.keys[key] = struct{}{}
			r.keys++
		}
		return
	}
}

// remove forgets a key that add has made known. Called with mu held.
func (r *receipts) remove(stored storedReceipt, key Key) {
	for _, s := range r.segments {
		if s.num != stored.segment {
			continue
		}
		if _, ok := s.keys[key]; ok {
			delete(s.keys, key)
			r.keys--
		}
		s.bytes -= stored.size
		r.bytes -= stored.size
		return
	}
}

// forgetAtEnd makes a last commit if receipts wait to be deleted.
func (b *Buffer) forgetAtEnd() {
	r := &b.receipts
	r.mu.Lock()
	n := len(r.forget)
	r.mu.Unlock()
	if n > 0 {
		_, _ = b.post(&operation{run: func(*txn) {}}) // a store that failed forgets nothing
	}
}

// deleteForgotten adds to the batch the deletion of the receipts that [Claim.Forget] removed.
func (t *txn) deleteForgotten(batch *pebble.Batch) {
	r := &t.b.receipts
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ; n < len(r.forget) && (t.now.After(r.forget[n].after) || t.b.gate.stopping()); n++ {
		for _, s := range r.forget[n].receipts {
			_ = batch.Delete(format.ReceiptKey(s.segment, r.forget[n].key, s.sink, s.part), nil)
		}
	}
	if r.forget = r.forget[n:]; len(r.forget) == 0 {
		r.forget = nil
	}
}

// count fills in the counters of keys.
func (r *receipts) count(st *Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.Keys, st.KeyBytes, st.KeysForgotten = int64(r.keys), r.bytes, r.forgotten
	if r.keys > 0 {
		st.KeysUntil = r.segments[len(r.segments)-1].end(st.KeyRetention)
	}
}

// addNotes puts the receipts of a chunk into the batch.
func (t *txn) addNotes(batch *pebble.Batch, c *chunk) {
	r := &t.b.receipts
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range c.notes {
		n := &c.notes[i]
		s := t.segment()
		format.PutReceiptLife(n.value, c.sink.rec.Life)
		key := format.ReceiptKey(s.num, n.claim.key, c.sink.num, n.part)
		_ = batch.Set(key, n.value, nil) // a plain batch cannot fail
		size := int64(len(key) + len(n.value))
		n.stored = storedReceipt{segment: s.num, sink: c.sink.num, part: n.part, size: size}
		s.bytes += size
		r.bytes += size
	}
}

// segment returns the segment for new receipts, and starts one when the last is full or old. Called with receipts.mu held.
func (t *txn) segment() *segment {
	b, r := t.b, &t.b.receipts
	var num uint64
	if n := len(r.segments); n > 0 {
		s := r.segments[n-1]
		if t.now.Before(s.from.Add(b.opts.KeyRetention/segmentParts)) && len(s.keys) < b.opts.MaxKeys/segmentParts &&
			s.bytes < b.opts.MaxKeyBytes/segmentParts {
			return s
		}
		num = s.num
	}
	s := &segment{num: max(num+1, uint64(max(0, t.now.UnixMilli()))), from: t.now, keys: make(map[Key]struct{})}
	r.segments = append(r.segments, s)
	t.forgetReceipts()
	return s
}

// forgetReceipts removes the oldest segments that have expired or exceed a bound, and sets the timer for the next one. Called
// with receipts.mu held.
func (t *txn) forgetReceipts() {
	b, r := t.b, &t.b.receipts
	for len(r.segments) > 0 {
		s := r.segments[0]
		end := s.end(b.opts.KeyRetention)
		over := len(r.segments) > 1 && (r.keys > b.opts.MaxKeys-b.opts.MaxKeys/segmentParts ||
			r.bytes > b.opts.MaxKeyBytes-b.opts.MaxKeyBytes/segmentParts)
		if t.now.Before(end) && !over {
			t.onDurable(func() { b.timers.Set(timerKey{kind: timerReceipts}, end) })
			return
		}
		t.addToBatch(func(batch *pebble.Batch) {
			_ = batch.DeleteRange(format.ReceiptBound(s.num), format.ReceiptBound(s.num+1), nil)
		})
		r.segments = r.segments[1:]
		r.keys -= len(s.keys)
		r.bytes -= s.bytes
		if !t.now.Before(s.from.Add(b.opts.KeyRetention)) {
			continue
		}
		r.forgotten += int64(len(s.keys))
		if age := t.now.Sub(s.from); r.warned.IsZero() || t.now.Sub(r.warned) >= time.Hour {
			r.warned = t.now
			t.onDurable(func() {
				b.log.Warn("keys of calls forgotten early",
					"kept_for", age, "retention", b.opts.KeyRetention, "max_keys", b.opts.MaxKeys, "max_key_bytes", b.opts.MaxKeyBytes, "next", "raise MaxKeys or MaxKeyBytes, or send fewer keys")
			})
		}
	}
}

// end is when the last key that a segment may hold expires.
func (s *segment) end(retention time.Duration) time.Time {
	return s.from.Add(retention + retention/segmentParts)
}

// resumeReceipts sets the timer after an opening.
func (b *Buffer) resumeReceipts() {
	r := &b.receipts
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.segments) > 0 {
		b.timers.Set(timerKey{kind: timerReceipts}, r.segments[0].end(b.opts.KeyRetention))
	}
}

// recoverReceipts reads the keys of all receipts.
func (r *recovery) recoverReceipts() error {
	it, err := r.db.NewIter(iterBounds([]byte{format.PrefixReceipt}, []byte{format.PrefixReceipt + 1}))
	if err != nil {
		return err
	}
	defer it.Close()
	var s *segment
	for ok := it.First(); ok; ok = it.Next() {
		num, key, _, _, ok := format.ParseReceiptKey(it.Key())
		if !ok {
			return pebblestore.Damaged("receipt %x: the key has %d bytes", it.Key(), len(it.Key()))
		}
		if s == nil || s.num != num {
			s = &segment{num: num, from: r.resumed(time.UnixMilli(int64(num)).UTC()), keys: make(map[Key]struct{})}
			r.receipts = append(r.receipts, s)
		}
		s.keys[key] = struct{}{}
		value := it.LazyValue()
		s.bytes += int64(len(it.Key()) + value.Len())
	}
	return it.Error()
}

// findReceipts reads the receipts of a claim from the segments that have its key.
func (b *Buffer) findReceipts(c *Claim, segments []uint64) error {
	store := b.store.Opening()
	if err := store.Read(); err != nil {
		if f := b.failure(); f != nil {
			return f
		}
		return ErrClosed
	}
	defer store.Release()
	now := b.now()
	for _, num := range segments {
		from := format.ReceiptKey(num, c.key, 0, 0)
		to := format.ReceiptKey(num, c.key, 1<<32-1, 1<<32-1)
		it, err := store.DB.NewIter(iterBounds(from, to))
		if err == nil {
			for ok := it.First(); ok && err == nil; ok = it.Next() {
				err = b.findReceipt(c, it, now)
			}
			err = errors.Join(err, it.Error(), it.Close())
		}
		switch {
		case err == nil:
		case pebblestore.IsDamage(err):
			b.passDamaged(err)
		default:
			return fmt.Errorf("buffer: look up the key of a call: %w", err)
		}
	}
	return nil
}

func (b *Buffer) findReceipt(c *Claim, it *pebble.Iterator, now time.Time) error {
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	segment, _, sink, part, _ := format.ParseReceiptKey(it.Key())
	copied := part >= format.ReceiptCopy
	if !copied {
		c.part = max(c.part, part+1)
	}
	c.stored = append(c.stored, storedReceipt{segment, sink, part, int64(len(it.Key()) + len(value))})
	r, known, err := b.readReceipt(it.Key(), sink, value, now)
	if known {
		r.Copied = copied
		r.Data = append([]byte(nil), r.Data...)
		c.found = append(c.found, r)
	}
	return err
}

// readReceipt reads a receipt, whose data alias value. known is false if its key has expired, or if the rows went with the table of an earlier life of
// the sink.
func (b *Buffer) readReceipt(key []byte, sink uint32, value []byte, now time.Time) (r Receipt, known bool, err error) {
	at, life, data, err := format.ParseReceipt(value)
	if err != nil {
		return r, false, pebblestore.Damaged("receipt %x: %w", key, err)
	}
	if now.Sub(at) >= b.opts.KeyRetention {
		return r, false, nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.mu.byNum[sink]
	if s == nil || s.rec.Life != life {
		return r, false, nil
	}
	return Receipt{SinkID: s.id, At: at, Data: data}, true, nil
}

// passDamaged logs a receipt that can never be read. The design that lost was to refuse the call until the key expires, which would lose its rows.
func (b *Buffer) passDamaged(found error) {
	b.log.Error("receipt of a call damaged", "cause", found, "next", "check the disk; a retry of this call is stored again")
}
