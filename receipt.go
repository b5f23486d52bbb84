package forebay

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/receipt"
)

// Receipt counts the records that the calls with one key have stored at one sink. See [Engine.Receipts].
type Receipt struct {
	// Sink is the id of the sink, which may no longer be defined.
	Sink string
	// At is when the rows were accepted, in milliseconds.
	At time.Time
	// Rows is the number of records that have become rows, Quarantined the number of records that the sink has put into its
	// quarantine.
	Rows, Quarantined int
}

// Receipts returns what calls of [Engine.IngestOnce] and of other calls with a [Once] have stored for a source, oldest first, as long as the
// key is kept, at most for Stats.KeyRetention. A key that has stored nothing, is forgotten or was never used has none. A running call with
// the key is waited for.
//
// At tells where the rows are. They are in files of the sink whose FileStats.Level has that time between FirstAt and LastAt, and in their slices,
// see [SinkHandle.Slices]. Neither costs anything when the row is written.
//
// Receipts fails with a [*buffer.FailedError], a [*buffer.FencedError], [ErrClosed] or the error of ctx.
func (e *Engine) Receipts(ctx context.Context, sourceID, key string) ([]Receipt, error) {
	claim, err := e.buf.Claim(ctx, kept.CallKey(sourceID, key))
	if err != nil {
		return nil, err
	}
	defer claim.Release()
	var list []Receipt
	for _, r := range claim.Receipts() {
		_, stored, aside, ok := receipt.Parse(r.Data)
		_, sink, _ := strings.Cut(r.SinkID, "/")
		if !ok {
			continue
		}
		list = append(list, Receipt{Sink: sink, At: r.At, Rows: stored.Count() - aside.Count(), Quarantined: aside.Count()})
	}
	slices.SortStableFunc(list, func(a, b Receipt) int { return a.At.Compare(b.At) })
	return list, nil
}

// Slices returns the slices of a sink that still exist, oldest first. See [buffer.Buffer.Slices]. [buffer.Buffer.ReadSlice] reads one of them. The
// sink need no longer be defined.
func (h SinkHandle) Slices() []buffer.SliceStats {
	return h.e.buf.Slices(h.id())
}
