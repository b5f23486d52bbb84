package natsdriver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// These tests check behavior that the driver relies on and the documents of JetStream do not explicitly promise. A version of the
// server that breaks one of them must not be used.

// stream makes the stream of an instance as the driver does, and returns its subject.
func rawStream(t *testing.T) (l *Log, s jetstream.Stream, subject string) {
	t.Helper()
	l = newLog(t, 0, Options{})
	s, info, err := l.stream(t.Context(), created(t, l))
	if err != nil {
		t.Fatal(err)
	}
	return l, s, owner{1, "node-1"}.subject(info)
}

// publish appends after a sequence. It repeats nothing but the wait for a new stream to be known.
func publish(t *testing.T, l *Log, subject string, last uint64, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	t.Helper()
	options = append(options, jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequence(last))
	var ack *jetstream.PubAck
	var err error
	if late := clustertest.Eventually(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ack, err = l.js.Publish(ctx, subject, []byte("x"), options...)
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			return err
		}
		return nil
	}); late != nil {
		t.Fatal(late)
	}
	return ack, err
}

func TestFactRefusalNamesTheLastSequence(t *testing.T) {
	l, _, subject := rawStream(t)
	for last := range uint64(3) {
		if ack, err := publish(t, l, subject, last); err != nil || ack.Sequence != last+1 {
			t.Fatalf("append behind %d = %+v, %v", last, ack, err)
		}
	}
	for _, last := range []uint64{0, 2, 4, 1000} {
		_, err := publish(t, l, subject, last)
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence || api.Description != "wrong last sequence: 3" {
			t.Errorf("append behind %d of 3 = %v, want the code 10071 and the sequence 3", last, err)
		}
	}
}

// A duplicate is acknowledged before its condition is checked, with the sequence of the first copy.
func TestFactDuplicateIsAnsweredWithTheFirstSequence(t *testing.T) {
	l, _, subject := rawStream(t)
	for last := range uint64(3) {
		if _, err := publish(t, l, subject, last, jetstream.WithMsgID("1."+strconv.FormatUint(last, 10)+".1")); err != nil {
			t.Fatal(err)
		}
	}
	for _, last := range []uint64{3, 1, 77} {
		ack, err := publish(t, l, subject, last, jetstream.WithMsgID("1.1.1"))
		if err != nil || !ack.Duplicate || ack.Sequence != 2 {
			t.Errorf("append a duplicate of 2 behind %d = %+v, %v, want a duplicate with the sequence 2", last, ack, err)
		}
	}
}

// This is why Open appends a gap. The second append of an old writer is accepted after another writer's single record.
func TestFactExpectedSequenceAloneDoesNotFence(t *testing.T) {
	l, _, subject := rawStream(t)
	if _, err := publish(t, l, subject, 0); err != nil { // of the adopter
		t.Fatal(err)
	}
	if _, err := publish(t, l, subject, 0); !wrongLast(err) {
		t.Fatalf("the old writer's first append = %v, want a refusal", err)
	}
	if ack, err := publish(t, l, subject, 1); err != nil || ack.Sequence != 2 {
		t.Fatalf("the old writer's second append = %+v, %v, want that it is accepted: if it is not, the gap is not needed any more", ack, err)
	}
}

// A batch is refused as a whole, by the condition of its first message.
func TestFactBatchIsStoredWholeOrNotAtAll(t *testing.T) {
	l, s, subject := rawStream(t)
	last := func() uint64 {
		info, err := s.Info(within(t))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.LastSeq
	}
	end := uint64(0)
	err := clustertest.Eventually(func() (err error) { // a new stream may not be known yet
		end, err = l.appendBatch(within(t), subject, 0, marker(1, "node-1"))
		return err
	})
	if err != nil || end != gap || last() != gap {
		t.Fatalf("a batch of %d ends at %d (%v), the stream at %d", gap, end, err, last())
	}
	for _, behind := range []uint64{0, gap - 1, gap + 1} {
		if _, err := l.appendBatch(within(t), subject, behind, marker(1, "node-1")); !wrongLast(err) || last() != gap {
			t.Errorf("a batch behind %d = %v, the stream ends at %d, want a refusal and %d", behind, err, last(), gap)
		}
	}
	// The first message of a batch is missing.
	m := message(subject, marker(1, "node-1"))
	m.Header.Set(headerBatch, "torn")
	m.Header.Set(headerBatchSeq, "2")
	m.Header.Set(headerCommit, "1")
	if _, err := l.js.PublishMsg(within(t), m, jetstream.WithRetryAttempts(0)); code(err) != codePartial || last() != gap {
		t.Errorf("the end of a batch without its begin = %v, the stream ends at %d", err, last())
	}
}

// Several appends in one pipeline are accepted one after the other, without waiting for a response.
func TestFactPipelineIsTakenInOrder(t *testing.T) {
	l, _, subject := rawStream(t)
	if _, err := publish(t, l, subject, 0); err != nil {
		t.Fatal(err)
	}
	inbox := nats.NewInbox()
	responses, err := l.conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	const n = 500
	for i := range uint64(n) {
		m := &nats.Msg{Subject: subject, Reply: inbox, Header: nats.Header{}, Data: make([]byte, 1000)}
		m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(i+1, 10))
		if err := l.conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(n) {
		m, err := responses.NextMsg(clustertest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		var ack jetstream.PubAck
		if err := json.Unmarshal(m.Data, &ack); err != nil || ack.Sequence != i+2 {
			t.Fatalf("response %d is %s", i, m.Data)
		}
	}
}

// After everything was purged, and after a late purge, sequences continue.
func TestFactPurgeKeepsTheEnd(t *testing.T) {
	l, s, subject := rawStream(t)
	for last := range uint64(5) {
		if _, err := publish(t, l, subject, last); err != nil {
			t.Fatal(err)
		}
	}
	for _, through := range []uint64{5, 2} {
		if err := s.Purge(within(t), jetstream.WithPurgeSequence(through+1)); err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(within(t))
		if err != nil || info.State.FirstSeq != 6 || info.State.LastSeq != 5 {
			t.Fatalf("after a purge through %d the stream has %+v, %v, want 6 to 5", through, info.State, err)
		}
	}
	if ack, err := publish(t, l, subject, 5); err != nil || ack.Sequence != 6 {
		t.Errorf("the next append = %+v, %v, want the sequence 6", ack, err)
	}
}

// A comparison that lost is refused with one of two codes, which the client tells from all other errors.
func TestFactComparisonThatLost(t *testing.T) {
	o := newOwners(t, 0, Options{Cluster: "facts"})
	if err := o.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := clustertest.Eventually(func() error {
		_, err := o.CompareAndSet(t.Context(), "i.a", 0, []byte("1"))
		if errors.Is(err, changelog.ErrLost) { // by an attempt whose response was lost
			err = nil
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var v changelog.Versioned
	if err := clustertest.Eventually(func() error { // a replica may lag
		var err error
		if v, err = o.Get(t.Context(), "i.a"); err == nil && v.Version == 0 {
			err = errors.New("there is no value")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	kv, err := o.kv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []uint64{0, uint64(v.Version) + 1} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err = kv.Update(ctx, "i.a", []byte("2"), old)
		cancel()
		if !wrongLast(err) || !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			t.Errorf("Update of the revision %d instead of %d = %v, want the code 10071 or 10164", old, v.Version, err)
		}
	}
}
