package natsdriver

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go/jetstream"
)

func TestSubjectTellsTheOwner(t *testing.T) {
	info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Subjects: []string{"fb.main.l.a.id.>"}}}
	for _, o := range []owner{{1, "node-1"}, {1<<64 - 1, "a.*>b/~"}, {7, strings.Repeat("n", 128)}} {
		if got, err := ownerOf(o.subject(info)); err != nil || got != o {
			t.Errorf("ownerOf(%q) = %+v, %v, want %+v", o.subject(info), got, err, o)
		}
	}
	for _, subject := range []string{"", "a", "x.bm9kZQ", "7.$"} {
		if o, err := ownerOf(subject); err == nil {
			t.Errorf("ownerOf(%q) = %+v, want an error", subject, o)
		}
	}
}

// An owner that is fenced while it opens leaves markers of a lower epoch at the end. No writer may take the last record for the highest
// epoch then, because the records of the next writer would be acknowledged and void.
func TestOpenSeesHigherEpochsBehindVoidMarkers(t *testing.T) {
	l := newLog(t, 0, Options{})
	instance := created(t, l)
	rightful := open(t, l, instance, 5)
	_, info, err := l.stream(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	// The late owner's append, whose response was lost.
	if _, err := l.appendGap(within(t), owner{4, "node-2"}.subject(info), 0, marker(4, "node-2")); err != nil {
		t.Fatal(err)
	}
	for _, late := range []changelog.Record{marker(4, "node-2"), marker(5, "node-2"), marker(1, "node-1")} {
		if _, err := l.Open(t.Context(), instance, late); !errors.Is(err, changelog.ErrFenced) {
			t.Errorf("Open with epoch %d of %s = %v, want changelog.ErrFenced", late.Epoch, late.Node, err)
		}
	}
	// The void markers stand where the rightful owner's record should be. They do not fence it.
	if _, err := rightful.Append(batch(5, 1, "x")).Wait(t.Context()); !errors.Is(err, changelog.ErrUnknown) || errors.Is(err, changelog.ErrFenced) {
		t.Errorf("an append behind a void marker = %v, want changelog.ErrUnknown", err)
	}
	if p, err := open(t, l, instance, 6).Append(batch(6, 1, "x")).Wait(t.Context()); err != nil {
		t.Errorf("an append after opening again = %d, %v", p, err)
	}
}

// A writer learns that it was fenced if a higher epoch is in the log, and not otherwise.
func TestRefusedAppendLooksForTheEpoch(t *testing.T) {
	l := newLog(t, 0, Options{})
	instance := created(t, l)
	old := open(t, l, instance, 1)
	open(t, l, instance, 2)
	first, second := old.Append(batch(1, 1, "x")), old.Append(batch(1, 2, "x"))
	for _, ticket := range []changelog.Ticket{first, second} {
		if _, err := ticket.Wait(t.Context()); !errors.Is(err, changelog.ErrFenced) || !strings.Contains(err.Error(), "node-1 has the epoch 2") {
			t.Errorf("an append of the old writer = %v, want changelog.ErrFenced with the owner", err)
		}
	}
}
