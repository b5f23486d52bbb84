package natsdriver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/forebay/forebay/changelog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of JetStream that the package of its client does not name.
const (
	headerBatch    = "Nats-Batch-Id"
	headerBatchSeq = "Nats-Batch-Sequence"
	headerCommit   = "Nats-Batch-Commit"
)

// Open implements [changelog.Log] with a gap (see the package comment). It repeats an attempt that nobody answers: if the first one
// was stored after all, there are two gaps. The position of the marker is the end of the last.
func (l *Log) Open(ctx context.Context, instance string, marker changelog.Record) (changelog.Writer, error) {
	stream, info, err := l.stream(ctx, instance)
	if err != nil {
		return nil, fmt.Errorf("natsdriver: open: %w", err)
	}
	subject := info.Config.Subjects[0]
	// Whoever is fenced already must not fence the owner in turn.
	if err := l.yields(ctx, stream, info.State.LastSeq, marker); err != nil {
		return nil, fmt.Errorf("natsdriver: open the log of %s: %w", instance, err)
	}
	end, err := answered(ctx, l.options, func(ctx context.Context) (uint64, error) {
		return l.appendGap(ctx, subject, info.State.LastSeq, marker)
	})
	if err == nil {
		// Now the end is certain. Another adopter may have been faster.
		err = l.yields(ctx, stream, end-gap, marker)
	}
	if err != nil {
		return nil, fmt.Errorf("natsdriver: open the log of %s: %w", instance, failure(err))
	}
	w, err := newWriter(l, stream, subject, marker.Epoch, end)
	if err != nil {
		return nil, fmt.Errorf("natsdriver: open the log of %s: %w", instance, err)
	}
	return w, nil
}

// gap is how many markers Open appends: one for each append that an old writer may have under way, and the one that counts.
const gap = changelog.Window + 1

// appendGap appends the markers behind whatever is the end, and returns the sequence of the last one. It begins with a guess.
func (l *Log) appendGap(ctx context.Context, subject string, guess uint64, marker changelog.Record) (uint64, error) {
	for {
		end, err := l.appendBatch(ctx, subject, guess, marker)
		if !wrongLast(err) {
			return end, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		// The refusal names the last sequence that was proposed. It may never be committed, so it is the next guess and no more.
		var api *jetstream.APIError
		errors.As(err, &api)
		if _, unread := fmt.Sscanf(api.Description, "wrong last sequence: %d", &guess); unread != nil {
			return 0, err
		}
	}
}

// appendBatch appends the markers as one atomic batch, directly behind the sequence last.
func (l *Log) appendBatch(ctx context.Context, subject string, last uint64, marker changelog.Record) (uint64, error) {
	batch := rand.Text()
	for i := 1; ; i++ {
		m := message(subject, marker)
		m.Header.Set(headerBatch, batch)
		m.Header.Set(headerBatchSeq, strconv.Itoa(i))
		if i == 1 {
			m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(last, 10))
		}
		if i < gap { // the answer to the last one is for all
			if err := l.conn.PublishMsg(m); err != nil {
				return 0, err
			}
			continue
		}
		m.Header.Set(headerCommit, "1")
		ack, err := l.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		if err != nil {
			return 0, err
		}
		if ack.Sequence != last+gap {
			return 0, fmt.Errorf("the marker behind %d has the sequence %d instead of %d", last, ack.Sequence, last+gap)
		}
		return ack.Sequence, nil
	}
}

// yields returns [changelog.ErrFenced] if the record at a sequence, the last one in front of a marker, belongs to a higher epoch, or
// to the same one of another node. No record of a lower epoch follows on one of a higher, because of the gap. Sequences that
// were trimmed are fine: the owners' store knows the epoch.
func (l *Log) yields(ctx context.Context, stream jetstream.Stream, last uint64, marker changelog.Record) error {
	r, err := l.record(ctx, stream, last)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return err
	case r.Epoch > marker.Epoch, r.Epoch == marker.Epoch && r.Node != marker.Node:
		return fmt.Errorf("%w: %s has the epoch %d", changelog.ErrFenced, r.Node, r.Epoch)
	}
	return nil
}

// record asks the leader for one record.
func (l *Log) record(ctx context.Context, stream jetstream.Stream, seq uint64) (changelog.Record, error) {
	if seq == 0 {
		return changelog.Record{}, jetstream.ErrMsgNotFound
	}
	raw, err := answered(ctx, l.options, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return stream.GetMsg(ctx, seq) })
	if err != nil {
		return changelog.Record{}, err
	}
	r, err := changelog.ParseFields(raw.Header.Get)
	if err != nil {
		return changelog.Record{}, fmt.Errorf("%w: the record at %d: %w", changelog.ErrHole, seq, err)
	}
	return r, nil
}

// message is a record as a message, without its conditions.
func message(subject string, r changelog.Record) *nats.Msg {
	m := &nats.Msg{Subject: subject, Header: make(nats.Header, 9), Data: r.Data}
	r.Fields(m.Header.Set)
	return m
}
