package receipt

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// An attempt knows what the receipts of earlier calls name, at each sink. Records in the quarantine are told apart.
func TestAttemptKnowsEarlierCalls(t *testing.T) {
	mem := buffertest.NewMemory()
	b, err := buffer.Open(t.TempDir(), buffer.Options{Staging: mem, Target: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	ids := []string{"web/a", "web/b"}
	sinks := make([]*buffer.DefinedSink, len(ids))
	for k, id := range ids {
		table := driver.Table{ID: id, Columns: []datatype.Column{{Name: "n"}}}
		if sinks[k], err = b.Define(t.Context(), buffer.SinkConfig{ID: id, Table: table}); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(content string, within time.Duration) (*Attempt, *buffer.Claim, error) {
		claim, err := b.Claim(t.Context(), buffer.Key{1})
		if err != nil {
			t.Fatal(err)
		}
		a, err := Begin(claim, claim.Receipts(), []byte(content), within, len(ids), func(id string) int { return slices.Index(ids, id) })
		return a, claim, err
	}

	first, _, err := begin("content", 0)
	if err != nil || first.Knows(0) || first.Has(0, 0) {
		t.Fatalf("the first attempt knows an earlier call, %v", err)
	}
	for i := range 4 {
		first.Take(0, i)
	}
	first.TakeAside(1, 2)
	rows := []buffer.Rows{{Sink: sinks[0], Data: []byte("0\n1\n2\n"), Count: 3}, {Sink: sinks[1], Data: []byte("2\n"), Count: 1}}
	for k := range rows {
		first.AddTo(&rows[k], k, 3) // record 3 is for a later portion, which does not arrive
	}
	ticket, err := b.Append(t.Context(), time.Now(), rows...)
	if err == nil {
		err = ticket.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	first.Release()

	next, _, err := begin("content", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ a, b, aside bool }{{a: true}, {a: true}, {true, true, true}, {}} {
		if got := (struct{ a, b, aside bool }{next.Has(0, i), next.Has(1, i), next.HasAside(1, i)}); got != want {
			t.Errorf("of record %d the next attempt knows %+v, want %+v", i, got, want)
		}
	}
	if !next.Knows(1) || next.HasAside(0, 2) {
		t.Errorf("the next attempt knows rows of sink b: %t, and record 2 in the quarantine of sink a: %t", next.Knows(1), next.HasAside(0, 2))
	}
	next.Release()

	if _, claim, err := begin("other", 0); !errors.Is(err, ErrOtherContent) {
		t.Errorf("with other content: %v, want %v", err, ErrOtherContent)
	} else {
		claim.Release()
	}
	late, claim, err := begin("other", time.Nanosecond)
	if err != nil || late.Knows(0) {
		t.Errorf("an attempt for which the first call is too old: it knows the call: %t, %v", late.Knows(0), err)
	}
	late.Hold()
	late.Release() // a Turn ends it
	claim.Release()
}

// A call without a key has no attempt.
func TestNoAttempt(t *testing.T) {
	var a *Attempt
	var rows buffer.Rows
	a.Take(0, 1)
	a.TakeAside(0, 1)
	a.AddTo(&rows, 0, 2)
	a.Hold()
	a.Release()
	if a.Has(0, 1) || a.HasAside(0, 1) || a.Knows(0) || rows.Claim != nil || rows.Receipt != nil {
		t.Errorf("a call without a key knows a record, or gives its rows a receipt: %+v", rows)
	}
}

// Receipts have the records that they were made of. Receipts of a later version are left out.
func TestReceiptHasItsRecords(t *testing.T) {
	sum := sumOf([]byte("content"))
	stored := spans{}.with(0).with(1).with(5).with(7)
	for _, aside := range []spans{nil, spans{}.with(5)} {
		b := encode(sum, stored, aside)
		gotSum, gotStored, gotAside, ok := parse(b)
		if !ok || gotSum != sum || !slices.Equal(gotStored, stored) || !slices.Equal(gotAside, aside) || gotStored.count() != 4 {
			t.Errorf("records %v, in the quarantine %v: the receipt has %v, %v, %t", stored, aside, gotStored, gotAside, ok)
		}
		b[0] = 9
		if _, _, _, ok := parse(b); ok {
			t.Error("a receipt of a later version was read")
		}
	}
	low, high := stored.cut(6)
	if !slices.Equal(low, spans{}.with(0).with(1).with(5)) || !slices.Equal(high, spans{}.with(7)) || !slices.Equal(high.join(low), stored) {
		t.Errorf("cut below 6: got %v and %v, want two parts of %v", stored, low, high)
	}
}
