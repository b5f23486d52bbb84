package natsdriver

import (
	"errors"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go"
)

// A log to which a later release has appended can be read up to there. What follows is neither damage nor a hole, for which the instance
// would be given up until an operator acts.
func TestLogOfALaterRelease(t *testing.T) {
	l := newLog(t, 0, Options{})
	instance := created(t, l)
	w := open(t, l, instance, 1)
	if _, err := w.Append(batch(1, 1, "one")).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, info, err := l.stream(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	newer := &nats.Msg{Subject: (owner{1, "node-1"}).subject(info), Header: nats.Header{}, Data: []byte("two")}
	newer.Header.Set("Fb-F", "2")
	newer.Header.Set("Fb-K", "compressed")
	if _, err := l.js.PublishMsg(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	read, failed := 0, error(nil)
	for e, err := range l.Read(t.Context(), instance, 1) {
		if err == nil && e.Kind == changelog.Batch && string(e.Data) == "one" {
			read++
		}
		failed = err
	}
	if read != 1 || !errors.Is(failed, changelog.ErrNewer) || errors.Is(failed, changelog.ErrHole) {
		t.Errorf("got %d batches, then %v, want 1, then %v", read, failed, changelog.ErrNewer)
	}
}
