package changelogtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/forebay/forebay/cluster/changelog"
)

// Log is a [changelog.Log] in memory, for tests. It models three replicas with a leader, proposals, commit by majority and followers
// that lag. It is safe for concurrent use.
//
// It fences as JetStream does. Each append names the position that it expects at the end of the log, and is refused if the log
// ends elsewhere. That alone does not stop a writer that pipelines. When an adopter's record has taken its next position,
// it loses one append, and its next append expects exactly the present end. So Open appends its marker changelog.Window + 1 times, as
// one proposal. Every append that earlier writers have in flight expects a position before the last marker, and is refused.
//
// Its messages have ids like natsdriver's, EPOCH.NUMBER.PART for each part of a batch. A repeated copy is acknowledged
// with the position of the first one, which need not be where its writer expects it.
type Log struct {
	// MaxBytes is the bound of each stream that is created from now on; 0 means 1 GiB. A record takes 128 bytes more than its
	// node and data.
	MaxBytes int64

	net     network
	streams map[string]*stream // guarded by the lock of net
}

var _ interface {
	changelog.Log
	changelog.Elector
} = (*Log)(nil)

// NewLog returns a log without streams. Equal seeds draw equal faults, if the calls happen in the same order.
func NewLog(seed uint64, f Faults) *Log {
	return &Log{net: newNetwork(seed, f), streams: make(map[string]*stream)}
}

// SetFaults replaces the faults. Messages in flight keep the faults drawn for them.
func (l *Log) SetFaults(f Faults) { l.net.setFaults(f) }

// Create implements [changelog.Log].
func (l *Log) Create(ctx context.Context, instance string) error {
	_, err := call(ctx, &l.net, func(respond func(struct{}, error)) {
		if l.streams[instance] == nil {
			l.streams[instance] = newStream(&l.net, cmp.Or(l.MaxBytes, 1<<30))
		}
		respond(struct{}{}, nil)
	})
	return err
}

// Open implements [changelog.Log].
func (l *Log) Open(ctx context.Context, instance string, marker changelog.Record) (changelog.Writer, error) {
	marker.Data = bytes.Clone(marker.Data)
	return onStream(ctx, l, instance, func(s *stream, respond func(changelog.Writer, error)) {
		s.mayChangeLeader()
		if s.fenced(marker, s.commit) {
			respond(nil, changelog.ErrFenced)
			return
		}
		before := s.last() // a driver learns it from refusals, and tries until it has the right one
		end := before + changelog.Window + 1
		err := s.propose(func() {
			if s.fenced(marker, before) { // by a proposal that is committed by now
				respond(nil, changelog.ErrFenced)
				return
			}
			respond(newWriter(s, marker, end), nil)
		}, slices.Repeat([]changelog.Record{marker}, changelog.Window+1)...)
		if err != nil {
			respond(nil, err)
		}
	})
}

// onStream runs do on the stream of an instance, when the request arrives.
func onStream[A any](ctx context.Context, l *Log, instance string, do func(s *stream, respond func(A, error))) (A, error) {
	return call(ctx, &l.net, func(respond func(A, error)) {
		if s := l.streams[instance]; s != nil {
			do(s, respond)
			return
		}
		var none A
		respond(none, changelog.ErrMissing)
	})
}

// Read implements [changelog.Log].
func (l *Log) Read(ctx context.Context, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	return func(yield func(changelog.Entry, error) bool) {
		entries, err := onStream(ctx, l, instance, func(s *stream, respond func([]changelog.Entry, error)) { respond(s.read(from)) })
		for _, e := range entries {
			if ctx.Err() != nil {
				err = ctx.Err()
				break
			}
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(changelog.Entry{}, err)
		}
	}
}

// Trim implements [changelog.Log].
func (l *Log) Trim(ctx context.Context, instance string, through changelog.Position) error {
	_, err := onStream(ctx, l, instance, func(s *stream, respond func(struct{}, error)) {
		s.trim(through)
		respond(struct{}{}, nil)
	})
	return err
}

// Stat implements [changelog.Log].
func (l *Log) Stat(ctx context.Context, instance string) (changelog.Stat, error) {
	return onStream(ctx, l, instance, func(s *stream, respond func(changelog.Stat, error)) { respond(s.stat(), nil) })
}

// Delete implements [changelog.Log].
func (l *Log) Delete(ctx context.Context, instance string) error {
	_, err := call(ctx, &l.net, func(respond func(struct{}, error)) {
		if s := l.streams[instance]; s != nil {
			s.deleted = true
			delete(l.streams, instance)
		}
		respond(struct{}{}, nil)
	})
	return err
}

// with runs do on a stream that must exist.
func (l *Log) with(instance string, do func(s *stream)) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	s := l.streams[instance]
	if s == nil {
		panic("changelogtest: there is no stream of the instance " + instance)
	}
	do(s)
}

// Elect makes a replica, counted from 0, the leader of a stream. The first leader is 0. Proposals that it does not have are dropped. It
// returns false, and does nothing, if the replica lacks committed entries.
func (l *Log) Elect(instance string, replica int) (done bool) {
	l.with(instance, func(s *stream) { done = s.elect(replica) })
	return done
}

// Leaders implements [changelog.Elector]. A replica that lacks committed entries cannot lead.
func (l *Log) Leaders(ctx context.Context, instance string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		leader, err := onStream(ctx, l, instance, func(s *stream, respond func(int, error)) { respond(s.leader, nil) })
		if err != nil {
			yield("", err)
			return
		}
		for i := 1; i < replicas; i++ {
			next := (leader + i) % replicas
			name := fmt.Sprint("replica ", next)
			_, err := onStream(ctx, l, instance, func(s *stream, respond func(struct{}, error)) {
				if s.replica[next].away || !s.elect(next) {
					respond(struct{}{}, fmt.Errorf("%s is away or lags", name))
					return
				}
				respond(struct{}{}, nil)
			})
			if err != nil {
				name = ""
			}
			if !yield(name, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

// Cut keeps replicas from getting the leader's entries, until heal is called. Without two of three nothing is
// committed, but appends are still refused.
func (l *Log) Cut(instance string, replicas ...int) (heal func()) {
	set := func(s *stream, away bool) {
		for _, i := range replicas {
			s.replica[i].away = away
		}
	}
	var cut *stream
	l.with(instance, func(s *stream) {
		cut = s
		set(s, true)
	})
	return func() {
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		set(cut, false)
		cut.replicate()
	}
}

// Hole takes one entry from one replica. Reads notice while that is the leader, and followers that lack the entry get nothing more from it.
func (l *Log) Hole(instance string, replica int, at changelog.Position) {
	l.with(instance, func(s *stream) {
		r := &s.replica[replica]
		if r.holes == nil {
			r.holes = make(map[changelog.Position]bool)
		}
		r.holes[at] = true
	})
}

// Rollback removes the entries after a position from all replicas, committed ones too, as when the files of an older backup are put
// back. The ID stays.
func (l *Log) Rollback(instance string, through changelog.Position) {
	l.with(instance, func(s *stream) {
		if through < s.last() {
			s.cut(max(through, s.first-1))
			s.replicate()
		}
	})
}
