package stream

import (
	"container/list"
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay"
)

// keyHeader names a request, so that sending it again adds only what is missing of it.
const keyHeader = "Idempotency-Key"

const (
	// maxKeyLength is the greatest length of a key, in bytes.
	maxKeyLength = 255
	// receiptsFor is how long a receipt is kept after its request was answered.
	receiptsFor = 10 * time.Minute
	// maxReceiptBytes bounds the memory of all receipts. Above it the oldest are forgotten early.
	maxReceiptBytes = 128 << 20
	// The bytes of a receipt without its key, and of each event and sink in it; TestReceiptCost holds them to the truth.
	receiptCost = 440
	eventCost   = 24
	sinkCost    = 16
)

// receipts remember which sinks have the rows of the last requests that had a key. They are in memory only: a key is
// unknown after a restart, and then a request that is sent again is stored again.
type receipts struct {
	seed maphash.Seed
	most int // bytes of all receipts

	mu    sync.Mutex
	byKey map[receiptKey]*receipt
	order list.List // of receiptKey, the oldest answer first
	size  int       // bytes
}

// receiptKey has the secret because another source can get the id: it must not inherit what the one before has stored. It
// has the way in which bodies are taken apart because that gives the events their places.
type receiptKey struct {
	source, secret string
	split          forebay.Split
	key            string
}

// receipt is what is known of one request.
type receipt struct {
	// turn has room for the one request with this key that is in progress.
	turn chan struct{}
	body uint64 // a hash: the same key for other bodies is a mistake
	// kept has the sinks that have the row, by event; events may share a list. It is nil before the first answer.
	kept    [][]string
	size    int // bytes
	expires time.Time
	at      *list.Element
	waiting int // requests that hold or await their turn: the receipt must stay
}

func newReceipts() *receipts {
	return &receipts{seed: maphash.MakeSeed(), most: maxReceiptBytes, byKey: make(map[receiptKey]*receipt)}
}

var (
	badKey = &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest", message: "The Idempotency-Key must have 1 to 255 characters.",
	}
	otherBody = &apiError{
		status: http.StatusUnprocessableEntity, name: "stream.in.unprocessableContent",
		message: "The Idempotency-Key was used for another body. Nothing was stored.",
	}
)

// begin waits for the turn of a request with a key. The caller ends the receipt.
func (rs *receipts) begin(ctx context.Context, key receiptKey, body []byte) (*receipt, *apiError) {
	sum := maphash.Bytes(rs.seed, body)
	rs.mu.Lock()
	rs.expire(time.Now())
	r := rs.byKey[key]
	if r == nil {
		r = &receipt{turn: make(chan struct{}, 1), body: sum}
		rs.byKey[key] = r
	}
	if r.body != sum {
		rs.mu.Unlock()
		return nil, otherBody
	}
	r.waiting++
	rs.mu.Unlock()
	select {
	case r.turn <- struct{}{}:
		return r, nil
	case <-ctx.Done():
		rs.mu.Lock()
		if r.waiting--; r.waiting == 0 && r.at == nil { // it has no answer, so nothing would end it
			delete(rs.byKey, key)
		}
		rs.mu.Unlock()
		return nil, ingestError(context.Cause(ctx), "")
	}
}

// end notes the results of a request, nil when there are none, and gives the turn to the next one.
func (rs *receipts) end(key receiptKey, r *receipt, results []forebay.Result) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.waiting--
	rs.size -= r.size
	r.keep(results)
	r.size = r.cost(key)
	rs.size += r.size
	r.expires = time.Now().Add(receiptsFor)
	if r.at != nil {
		rs.order.Remove(r.at)
	}
	r.at = rs.order.PushBack(key)
	<-r.turn
	rs.expire(time.Now())
}

// keep adds what results say.
func (r *receipt) keep(results []forebay.Result) {
	if missing := len(results) - len(r.kept); missing > 0 {
		r.kept = append(r.kept, make([][]string, missing)...)
	}
	var last, names []string // of the event before, and of this one
	for i, res := range results {
		names = append(names[:0], r.kept[i]...)
		for _, s := range res.Sinks {
			if (s.Status == forebay.Stored || s.Status == forebay.Queued) && !r.has(i, s.Sink) {
				names = append(names, s.Sink)
			}
		}
		if !slices.Equal(names, last) {
			last = slices.Clone(names)
		}
		r.kept[i] = last
	}
}

// cost returns the bytes that the receipt takes.
func (r *receipt) cost(key receiptKey) int {
	size := receiptCost + len(key.key) + eventCost*len(r.kept)
	for i, names := range r.kept {
		if len(names) > 0 && (i == 0 || len(r.kept[i-1]) == 0 || &names[0] != &r.kept[i-1][0]) {
			size += sinkCost * len(names)
		}
	}
	return size
}

// has tells whether a sink has the row of an event.
func (r *receipt) has(event int, sink string) bool {
	if event >= len(r.kept) {
		return false
	}
	return slices.Contains(r.kept[event], sink)
}

// expire forgets the receipts whose time is over, and the oldest while there are too many. rs.mu is held.
func (rs *receipts) expire(now time.Time) {
	for e := rs.order.Front(); e != nil; {
		next := e.Next()
		key := e.Value.(receiptKey)
		r := rs.byKey[key]
		if now.Before(r.expires) && rs.size <= rs.most {
			return
		}
		if r.waiting == 0 {
			rs.order.Remove(e)
			delete(rs.byKey, key)
			rs.size -= r.size
		}
		e = next
	}
}
