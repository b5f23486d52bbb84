package natsdriver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A reader asks for at most so much at once, and keeps it in memory.
const (
	readBytes    = 32 << 20
	readMessages = 4096
)

// Read implements [changelog.Log]. It reads the replicas that the servers choose, and gets from the leader what one of them lacks. It
// keeps up to 32 MB in memory.
func (l *Log) Read(ctx context.Context, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	return func(yield func(changelog.Entry, error) bool) {
		next, err := l.read(ctx, instance, max(from, 1), yield)
		if err != nil {
			yield(changelog.Entry{}, fmt.Errorf("natsdriver: read the log of %s at %d: %w", instance, next, err))
		}
	}
}

// read yields entries until the end or until yield has had enough, and returns the position after the last one.
func (l *Log) read(ctx context.Context, instance string, next changelog.Position, yield func(changelog.Entry, error) bool) (changelog.Position, error) {
	stream, info, err := l.stream(ctx, instance)
	if err != nil {
		return next, err
	}
	last := changelog.Position(info.State.LastSeq)
	if next <= last && (info.State.Msgs == 0 || uint64(next) < info.State.FirstSeq) {
		return next, changelog.ErrTrimmed
	}
	take := func(header nats.Header, data []byte) (more bool, err error) {
		r, err := changelog.ParseFields(header.Get)
		if errors.Is(err, changelog.ErrNewer) {
			return false, err
		}
		if err != nil {
			return false, fmt.Errorf("%w: %w", changelog.ErrHole, err)
		}
		r.Data = data
		next++
		return yield(changelog.Entry{Position: next - 1, Record: r}, nil), nil
	}
	for next <= last {
		chunk, err := withRetries(ctx, l.options, func(ctx context.Context) ([]jetstream.Msg, error) {
			return fetch(ctx, stream, uint64(next), int(min(last-next+1, readMessages)))
		})
		if err != nil {
			return next, l.lost(ctx, instance, next, err)
		}
		for _, m := range chunk {
			meta, err := m.Metadata()
			if err != nil {
				return next, err
			}
			for next < changelog.Position(meta.Sequence.Stream) { // the replica lacks it
				m, err := withRetries(ctx, l.options, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
					return stream.GetMsg(ctx, uint64(next))
				})
				if err != nil {
					return next, l.lost(ctx, instance, next, err)
				}
				if more, err := take(m.Header, m.Data); !more {
					return next, err
				}
			}
			if more, err := take(m.Headers(), m.Data()); !more {
				return next, err
			}
		}
	}
	return next, nil
}

// fetch returns the first of n messages, at least one, without one that was lost on the way. It makes a consumer for just this, because one that
// is used again may be gone, and the client's ordered consumer waits for ten seconds when its first request comes before the
// servers know it.
func fetch(ctx context.Context, stream jetstream.Stream, from uint64, n int) (chunk []jetstream.Msg, err error) {
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, AckPolicy: jetstream.AckNonePolicy,
		Replicas: 1, MemoryStorage: true, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	defer func() { // if that fails, the servers do it after a minute
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name)
	}()
	messages, err := consumer.Fetch(n, jetstream.FetchMaxBytes(readBytes), jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	delivered := uint64(0)
	for m := range messages.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		if delivered++; meta.Sequence.Consumer != delivered {
			break
		}
		if meta.Sequence.Stream >= from { // a replica that lags begins at its own end
			chunk = append(chunk, m)
		}
		if meta.Sequence.Stream >= from+uint64(n)-1 { // a replica that lost some sends fewer
			break
		}
	}
	if len(chunk) > 0 {
		return chunk, nil
	}
	if err := messages.Error(); err != nil {
		return nil, err
	}
	return nil, errors.New("the replica has not sent the next record")
}

// lost says why the record at a position does not come: the stream is gone, the record was trimmed, the leader has a hole, or err.
func (l *Log) lost(ctx context.Context, instance string, at changelog.Position, err error) error {
	_, info, infoErr := l.stream(ctx, instance)
	switch {
	case errors.Is(infoErr, changelog.ErrMissing):
		return infoErr
	case infoErr == nil && uint64(at) < info.State.FirstSeq:
		return changelog.ErrTrimmed
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return fmt.Errorf("%w: %w", changelog.ErrHole, err)
	}
	return err
}
