package natsdriver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of JetStream that the package of its client does not name.
const (
	headerBatch    = "Nats-Batch-Id"
	headerBatchSeq = "Nats-Batch-Sequence"
	headerCommit   = "Nats-Batch-Commit"
)

// Open implements [changelog.Log] with a gap (see the package comment). It repeats an attempt without a response. If the first one
// was stored after all, there are two gaps. The position of the marker is the end of the last. Two nodes that open with the same epoch
// at once may both be refused.
func (l *Log) Open(ctx context.Context, instance string, marker changelog.Record) (changelog.Writer, error) {
	w, err := l.open(ctx, instance, marker)
	if err != nil {
		return nil, fmt.Errorf("natsdriver: open the log of %s: %w", instance, err)
	}
	return w, nil
}

func (l *Log) open(ctx context.Context, instance string, marker changelog.Record) (*writer, error) {
	if err := checkVersion(l.conn); err != nil {
		return nil, err
	}
	stream, info, err := l.stream(ctx, instance)
	if err != nil {
		return nil, err
	}
	if info.Cluster != nil {
		l.options.elections.know(info.Config.Name, info.Cluster.Leader)
	}
	if most := l.conn.MaxPayload(); most < changelog.PartBytes+maxHeaders {
		return nil, fmt.Errorf("max_payload of the server is %d bytes, must be at least %d", most, changelog.PartBytes+maxHeaders)
	}
	me := owner{marker.Epoch, marker.Node}
	yields := func(o owner) bool { return o.epoch > me.epoch || o.epoch == me.epoch && o.node != me.node }
	// Whoever is fenced already must not fence the owner in turn.
	if _, err := l.fenced(ctx, stream, info.State.LastSeq, yields); err != nil {
		return nil, err
	}
	end, err := withRetries(ctx, l.options, func(ctx context.Context) (uint64, error) {
		return l.appendGap(ctx, me.subject(info), info.State.LastSeq, marker)
	})
	if err == nil {
		// Everything before the gap is certain now. Another adopter may have been faster.
		info, err = l.fenced(ctx, stream, end, yields)
	}
	if err != nil {
		return nil, failure(err, func() bool { return l.full(ctx, stream) })
	}
	info, _ = l.reserve(ctx, stream, info, 0, true) // or the log has the room that it had
	return newWriter(l, instance, stream, me, end, bound(info)-int64(info.State.Bytes))
}

// maxHeaders is more than the headers of a record take.
const maxHeaders = 4 << 10

// gap is how many markers Open appends: one for each append that an old writer may have in flight, and the marker that counts.
const gap = changelog.Window + 1

// appendGap appends the markers at the end, wherever it is, and returns the sequence of the last one. It begins with a guess.
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

// appendBatch appends the markers as one atomic batch, directly after the sequence last.
func (l *Log) appendBatch(ctx context.Context, subject string, last uint64, marker changelog.Record) (uint64, error) {
	batch := rand.Text()
	for i := 1; ; i++ {
		m := message(subject, marker)
		m.Header.Set(headerBatch, batch)
		m.Header.Set(headerBatchSeq, strconv.Itoa(i))
		if i == 1 {
			m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(last, 10))
		}
		if i < gap { // the response to the last message is for all
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
			return 0, fmt.Errorf("the marker after %d has the sequence %d instead of %d", last, ack.Sequence, last+gap)
		}
		return ack.Sequence, nil
	}
}

// message is a record as a message, without its conditions.
func message(subject string, r changelog.Record) *nats.Msg {
	m := &nats.Msg{Subject: subject, Header: make(nats.Header, 9), Data: r.Data}
	r.Fields(m.Header.Set)
	return m
}
