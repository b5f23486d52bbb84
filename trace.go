package forebay

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
)

// Receipt is what the calls with one key have stored at one sink: see [Engine.Receipts].
type Receipt struct {
	// Sink is the id of the sink, which need not be defined any more.
	Sink string
	// At is when the rows were accepted, in milliseconds.
	At time.Time
	// Rows is the number of records that have become rows, Quarantined the number of those that the sink has put into its quarantine.
	Rows, Quarantined int
}

// Receipts returns what calls of [Engine.IngestOnce] and of other calls with a [Once] have stored for a source, oldest first, as long as the
// key is kept: Stats.KeyRetention at most. A key that has stored nothing, is forgotten or was never used has none. A call with the key that
// is under way is waited for.
//
// At tells where the rows are: in files of the sink whose FileStats.Level has that time between FirstAt and LastAt, and in their slices,
// see [SinkHandle.Slices]. Neither costs anything when the row is written.
//
// Errors: a [*buffer.FailedError], a [*buffer.FencedError], [ErrClosed], the error of ctx.
func (e *Engine) Receipts(ctx context.Context, sourceID, key string) ([]Receipt, error) {
	claim, err := e.buf.Claim(ctx, keyOf(sourceID, key))
	if err != nil {
		return nil, err
	}
	defer claim.Release()
	var list []Receipt
	for _, r := range claim.Receipts() {
		_, stored, aside, ok := parseReceipt(r.Data)
		_, sink, _ := strings.Cut(r.SinkID, "/")
		if !ok {
			continue
		}
		list = append(list, Receipt{Sink: sink, At: r.At, Rows: stored.count() - aside.count(), Quarantined: aside.count()})
	}
	slices.SortStableFunc(list, func(a, b Receipt) int { return a.At.Compare(b.At) })
	return list, nil
}

// count is the number of records.
func (s spans) count() (n int) {
	for _, p := range s {
		n += p.to - p.from
	}
	return n
}

// Slices returns the slices of a sink that still exist, oldest first; see [buffer.Buffer.Slices]. The sink need not be defined any more.
func (h SinkHandle) Slices() []buffer.SliceStats {
	return h.e.buf.Slices(h.id())
}

// ReadSlice calls fn with the cells of each row of a slice of [SinkHandle.Slices]; see [buffer.Buffer.ReadSlice].
func (e *Engine) ReadSlice(ctx context.Context, sliceID string, fn func(cells [][]byte) error) error {
	return e.buf.ReadSlice(ctx, sliceID, fn)
}
