package forebay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/receipt"
)

// Once makes a call repeatable. See [Engine.IngestOnce].
type Once struct {
	// Key names the call among all calls to its source. It must not be empty.
	Key string
	// Content is the content that the key stands for. A call with a known key and different content is refused with
	// [ErrOtherContent]. Default: contents are not compared.
	Content []byte
	// Within is how long an earlier call counts. Default: as long as keys are kept, see buffer.Tuning.KeyRetention.
	Within time.Duration
	// Turn, when set, keeps the turn of the key after the call has returned, until [Turn.End]. Default: the turn ends with the call.
	Turn *Turn
}

// Turn is the turn of a call whose key identifies the call only until its outcome has reached the sender. Other calls with the key wait until
// End. Use it for senders that cannot name their calls. Then the key is computed from the content of a call, and a later call with the same content
// is a new call. A Turn must be zero before the call, and serves one call.
type Turn struct{ claim *buffer.Claim }

// End ends the turn. It must be called after every call with a Turn, whatever the call returned. arrived says that the sender has received the
// outcome and will not repeat the call. Then the key is forgotten. Otherwise the next call with the key repeats this call. After a crash within
// about a second of End, or before the next commit, the key may still be known.
//
// Calls after the first do nothing.
func (t *Turn) End(arrived bool) {
	if t.claim == nil {
		return
	}
	if arrived {
		t.claim.Forget()
	}
	t.claim.Release()
	t.claim = nil
}

// ErrOtherContent is returned for a key that an earlier call has used with different content. Nothing was stored.
var ErrOtherContent = receipt.ErrOtherContent

// attempt waits for the turn of a call with a key. It returns nil without a key. The caller releases it.
func (e *Engine) attempt(ctx context.Context, src *source, once *Once) (*receipt.Attempt, error) {
	if once == nil {
		return nil, nil
	}
	if once.Key == "" {
		return nil, errors.New("forebay: the key of the call is empty: set Once.Key to a text that is the same when the call is repeated")
	}
	claim, err := e.buf.Claim(ctx, kept.CallKey(src.def.ID, once.Key))
	if err != nil {
		return nil, err
	}
	earlier, err := e.earlier(ctx, src, once, claim)
	if err != nil {
		claim.Release()
		return nil, err
	}
	a, err := receipt.Begin(claim, earlier, once.Content, once.Within, len(src.sinks), func(id string) int {
		return slices.IndexFunc(src.sinks, func(s *sink) bool { return s.handle.ID() == id })
	})
	if err != nil {
		claim.Release()
		return nil, fmt.Errorf("source %q, key %.60q: %w", src.def.ID, once.Key, err) // without a turn: End does nothing
	}
	if once.Turn != nil {
		once.Turn.claim = claim
		a.Hold()
	}
	return a, nil
}

// earlier returns what earlier calls with the key of a call have stored. A call with a [Turn] learns of calls to this engine alone. Its key is
// needed only until its outcome has arrived, and then only this engine forgets it. A later call with equal content would be lost.
func (e *Engine) earlier(ctx context.Context, src *source, once *Once, claim *buffer.Claim) ([]buffer.Receipt, error) {
	list := claim.Receipts()
	if once.Turn != nil {
		return slices.DeleteFunc(slices.Clone(list), func(r buffer.Receipt) bool { return r.Copied }), nil
	}
	if e.opts.KnownElsewhere == nil {
		return list, nil
	}
	more, err := e.opts.KnownElsewhere(ctx, kept.CallKey(src.def.ID, once.Key))
	if err != nil {
		return nil, fmt.Errorf("source %q, key %.60q: %w", src.def.ID, once.Key, err)
	}
	return append(slices.Clip(list), more...), nil
}

// ErrKeyUnclear is returned by Options.KnownElsewhere for a key that another engine may know. Nothing was stored. Repeat the call later, with the same
// key.
var ErrKeyUnclear = errors.New("another node may have stored the call; repeat it later with the same key")

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

// CallKeys returns the keys for [Engine.Receipts] that a call may have if its sender gave it the text as its Idempotency-Key, or a program as the
// key of a [Once].
func CallKeys(text string) []string { return callkey.All(text) }

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
		stored, aside, ok := receipt.Count(r.Data)
		_, sink, _ := strings.Cut(r.SinkID, "/")
		if !ok {
			continue
		}
		list = append(list, Receipt{Sink: sink, At: r.At, Rows: stored - aside, Quarantined: aside})
	}
	slices.SortStableFunc(list, func(a, b Receipt) int { return a.At.Compare(b.At) })
	return list, nil
}
