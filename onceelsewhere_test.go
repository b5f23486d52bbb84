package forebay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// A call that is repeated at another engine stores the missing rows. It stores nothing if the other engine's rows are unknown. A call with a turn
// asks no other engine, and the keys that were copied from one do not count for it.
func TestCallKnownElsewhere(t *testing.T) {
	var first *forebay.Engine
	var unclear error
	asked := 0
	second, mem := openMemory(t, func(o *forebay.Options) {
		o.KnownElsewhere = func(_ context.Context, key buffer.Key) ([]buffer.Receipt, error) {
			asked++
			list, _, err := first.Buffer().Known(key)
			return list, errors.Join(unclear, err)
		}
	})
	first, _ = openMemory(t)
	for _, e := range []*forebay.Engine{first, second} {
		mustDefine(t, e, numbered())
	}
	recs := func() []*mapping.Record {
		return []*mapping.Record{number(`{"n":1,"m":1}`), number(`{"n":2,"m":1}`)}
	}
	once := forebay.Once{Key: "k", Content: []byte("content")}
	if _, err := first.IngestOnce(t.Context(), "web", once, recs()[:1]); err != nil {
		t.Fatal(err)
	}
	unclear = forebay.ErrKeyUnclear
	if _, err := second.IngestOnce(t.Context(), "web", once, recs()); !errors.Is(err, forebay.ErrKeyUnclear) {
		t.Errorf("got %v, want ErrKeyUnclear", err)
	}
	unclear = nil
	other := forebay.Once{Key: "k", Content: []byte("other")}
	if _, err := second.IngestOnce(t.Context(), "web", other, recs()); !errors.Is(err, forebay.ErrOtherContent) {
		t.Errorf("got %v, want ErrOtherContent", err)
	}
	res, err := second.IngestOnce(t.Context(), "web", once, recs())
	if err != nil || !res[0].Sinks[0].Replayed || res[1].Sinks[0].Replayed {
		t.Errorf("got %+v, %v, want the first record known and the second one stored", res, err)
	}
	if asked != 3 {
		t.Errorf("the other engine was asked %d times, want 3", asked)
	}
	must(t, second.Flush(t.Context(), "web"))
	uniqueRows(t, mem, "in.c-web.a", 1)

	if _, err := first.IngestOnce(t.Context(), "web", forebay.Once{Key: "turn", Content: []byte("content")}, recs()[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Buffer().Moves().ReceiveReceipts(t.Context(), first.Buffer()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{2, 3} { // two calls with equal content
		turn := forebay.Once{Key: "turn", Content: []byte("content"), Turn: &forebay.Turn{}}
		_, err := second.IngestOnce(t.Context(), "web", turn, []*mapping.Record{number(`{"n":%d,"m":1}`, 10+i)})
		turn.Turn.End(true)
		if err == nil {
			err = second.Flush(t.Context(), "web")
		}
		must(t, err)
		uniqueRows(t, mem, "in.c-web.a", want)
	}
	if asked != 3 {
		t.Errorf("with a turn the other engine was asked %d times, want 0", asked-3)
	}
}
