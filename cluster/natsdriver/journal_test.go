package natsdriver

import (
	"errors"
	"testing"

	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
	"github.com/nats-io/nats.go"
)

// newJournal makes the journal of a new cluster, whatever earlier runs have left of one with the name.
func newJournal(tb testing.TB, server int, cluster string) *Journal {
	tb.Helper()
	j, err := NewJournal(connect(tb, server), patient(Options{Cluster: cluster}))
	if err != nil {
		tb.Fatal(err)
	}
	return j
}

func TestJournalConformance(t *testing.T) {
	made := 0
	changelogtest.TestJournal(t, func(t *testing.T) changelog.Journal {
		made++
		j := newJournal(t, made%3, nats.NewInbox()[len(nats.InboxPrefix):])
		for range 2 { // the second finds it
			if err := j.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return j
	})
}

// TestJournalMissing: a journal that is not there is not an empty one, neither before Create nor when the stream was made again.
func TestJournalMissing(t *testing.T) {
	j := newJournal(t, 0, nats.NewInbox()[len(nats.InboxPrefix):])
	end := func() (err error) {
		for _, e := range j.Read(t.Context(), 1) {
			err = e
		}
		return err
	}
	if err := end(); !errors.Is(err, changelog.ErrMissing) {
		t.Errorf("a read before Create gives %v", err)
	}
	if err := j.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Append(t.Context(), 0, []byte("x")), end()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.js.DeleteStream(t.Context(), j.name()), j.Create(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := end(); !errors.Is(err, changelog.ErrMissing) {
		t.Errorf("a read of the stream that was made again gives %v", err)
	}
	if err := j.Append(t.Context(), 0, []byte("x")); !errors.Is(err, changelog.ErrUnknown) {
		t.Errorf("an append to the stream that was made again gives %v", err)
	}
}
