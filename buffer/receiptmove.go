package buffer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// copiedReceipt is a receipt of another buffer.
type copiedReceipt struct {
	key    Key
	sinkID string
	value  []byte
}

// ReceiveReceipts copies the receipts of another buffer into this one, durably, and returns how many there are. A call with one of their keys then
// finds them here, marked as copied. They count in Tuning.MaxKeys and MaxKeyBytes, and are kept as long as in the other buffer, so the oldest keys
// may be forgotten early. A receipt that cannot be read is left out, with a line in the log, and so is one whose sink is not defined here. A copy that
// is made again changes nothing, but may take room again.
//
// It fails with a [*FailedError], [ErrClosed] or the error of ctx.
func (m Moves) ReceiveReceipts(ctx context.Context, other *Buffer) (n int, err error) {
	if other == nil || other.store == nil {
		return 0, errors.New("buffer: the keys of an open buffer move")
	}
	var next []copiedReceipt
	size := 0
	send := func() error {
		list := next // the committer may read it after ctx has ended
		next, size = nil, 0
		return m.b.do(ctx, func(t *txn) {
			for i := range list {
				t.addCopy(&list[i])
			}
		})
	}
	err = other.eachReceipt(func(c copiedReceipt) error {
		n++
		next = append(next, c)
		if size += len(c.value); len(next) < receiptsAtOnce && size < keepBytes {
			return nil
		}
		return send()
	})
	if err == nil && len(next) > 0 {
		err = send()
	}
	if err != nil {
		return 0, fmt.Errorf("buffer: receive the keys of calls: %w", err)
	}
	return n, nil
}

// receiptsAtOnce is the number of receipts that one commit copies, if they are small.
const receiptsAtOnce = 4096

// eachReceipt calls fn for the receipts that a call with their key would find.
func (b *Buffer) eachReceipt(fn func(copiedReceipt) error) error {
	store := b.store.Opening()
	if err := store.Read(); err != nil {
		if f := b.failure(); f != nil {
			return f
		}
		return ErrClosed
	}
	defer store.Release()
	it, err := store.DB.NewIter(iterBounds([]byte{format.PrefixReceipt}, []byte{format.PrefixReceipt + 1}))
	if err != nil {
		return err
	}
	now := b.now()
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var r Receipt
		var known bool
		_, key, sink, _, _ := format.ParseReceiptKey(it.Key())
		value, failed := it.ValueAndErr()
		if failed == nil {
			r, known, failed = b.readReceipt(it.Key(), sink, value, now)
		}
		switch {
		case pebblestore.IsDamage(failed):
			b.passDamaged(failed)
		case failed != nil:
			err = failed
		case known:
			err = fn(copiedReceipt{key: key, sinkID: r.SinkID, value: append([]byte(nil), value...)})
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// addCopy stores a receipt of another buffer.
func (t *txn) addCopy(c *copiedReceipt) {
	b, r := t.b, &t.b.receipts
	s := b.mu.sinks[c.sinkID]
	if s == nil {
		return
	}
	format.PutReceiptLife(c.value, s.rec.Life)
	hash := fnv.New32a()
	_, _ = hash.Write(c.value)
	r.mu.Lock()
	defer r.mu.Unlock()
	num := t.segment().num
	key, value := format.ReceiptKey(num, c.key, s.num, hash.Sum32()|format.ReceiptCopy), c.value
	size := int64(len(key) + len(value))
	for _, g := range r.segments {
		if g.num == num {
			g.bytes += size
		}
	}
	r.bytes += size
	t.addToBatch(func(batch *pebble.Batch) { _ = batch.Set(key, value, nil) }) // a plain batch cannot fail
	t.onDurable(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.add(num, c.key)
	})
}
