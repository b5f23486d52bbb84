package natsdriver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// TestJournalMissing shows that a journal that is not there is not an empty one, neither before Create nor when the stream was made again.
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

// TestLeads shows that a leader is believed while a majority, it included, has responded to it a moment ago.
func TestLeads(t *testing.T) {
	if !leads(nil) {
		t.Error("a server that is alone does not lead")
	}
	const now, late = 1500 * time.Millisecond, silentFor
	for _, c := range []struct {
		heard []time.Duration // from each of the others, 0 for never
		want  bool
	}{
		{nil, true},
		{[]time.Duration{late}, false},
		{[]time.Duration{now, late}, true},
		{[]time.Duration{late, now}, true},
		{[]time.Duration{late, late}, false},
		{[]time.Duration{0, 0}, false},
		{[]time.Duration{0, now}, true},
		{[]time.Duration{now, late, late, late}, false},
		{[]time.Duration{now, late, now, late}, true},
	} {
		info := &jetstream.ClusterInfo{}
		for _, heard := range c.heard {
			info.Replicas = append(info.Replicas, &jetstream.PeerInfo{Active: heard})
		}
		if got := leads(info); got != c.want {
			t.Errorf("heard from the others before %v: %t, want %t", c.heard, got, c.want)
		}
	}
}

// waits lets a journal wait after its end, for an entry that never arrives, and returns the server of its consumer.
func waits(t *testing.T, j *Journal) (server int, cancel func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	result := make(chan error, 1)
	go func() { result <- j.Wait(ctx, 0) }()
	if err := clustertest.Eventually(func() error {
		stream, err := j.js.Stream(t.Context(), j.name())
		if err != nil {
			return err
		}
		var seen []string
		for info := range stream.ListConsumers(t.Context()).Info() {
			if info.NumWaiting == 1 {
				server = theCluster(t).Index(info.Cluster.Leader)
				return nil
			}
			seen = append(seen, fmt.Sprintf("%d at %v", info.NumWaiting, info.Cluster))
		}
		return fmt.Errorf("nobody waits: %v, the wait has ended %d times", seen, len(result))
	}); err != nil {
		t.Fatal(err)
	}
	return server, cancel, result
}

// TestJournalWaitNoticesALostReplica shows that a wait at a server that is stopped ends long before the time that one wait may take.
func TestJournalWaitNoticesALostReplica(t *testing.T) {
	j := newJournal(t, 0, nats.NewInbox()[len(nats.InboxPrefix):])
	if err := j.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.wait = time.Hour
	server, cancel, ended := waits(t, j)
	for server == 0 { // the servers choose at random, and the connection is to this one
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("a wait that is cancelled ends with %v", err)
		}
		server, cancel, ended = waits(t, j)
	}
	stop(t, server)
	select {
	case err := <-ended:
		t.Logf("the wait ended with %v", err)
	case <-within(t).Done():
		t.Error("the wait goes on at a server that is gone")
	}
}
