package natsdriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Leaders implements [changelog.Elector] by asking the leader to step down for another replica, which takes up to half a second.
//
// [changelog.Elector]: https://pkg.go.dev/github.com/forebay/forebay/cluster/changelog#Elector
func (l *Log) Leaders(ctx context.Context, instance string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		_, info, err := l.stream(ctx, instance)
		if err != nil {
			yield("", fmt.Errorf("natsdriver: leaders of the log of %s: %w", instance, err))
			return
		}
		if info.Cluster == nil {
			return
		}
		defer l.electing(instance)()
		for _, replica := range info.Cluster.Replicas {
			err := errors.New("its server is away")
			if !replica.Offline {
				err = l.lead(ctx, info.Config.Name, replica.Name)
			}
			name := replica.Name
			if err != nil {
				name, err = "", fmt.Errorf("natsdriver: make %s the leader of the log of %s: %w", replica.Name, instance, err)
			}
			if !yield(name, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

// lead makes a replica the leader of a stream. One that lags may lose the election, and is proposed again.
func (l *Log) lead(ctx context.Context, stream, replica string) error {
	request, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": replica}})
	if err != nil {
		return err
	}
	_, err = withRetries(ctx, l.options, func(ctx context.Context) (struct{}, error) {
		s, err := l.js.Stream(ctx, stream)
		if err != nil {
			return struct{}{}, missing(err)
		}
		leader := s.CachedInfo().Cluster.Leader
		if leader == replica {
			return struct{}{}, nil
		}
		if _, err := l.conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, request); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, fmt.Errorf("%s leads", leader)
	})
	return err
}

// electing keeps the leader of an instance's log from being moved back to Options.Leader until the function that it returns is called.
func (l *Log) electing(instance string) (end func()) {
	change := func(by int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.elects[instance] += by; l.elects[instance] == 0 {
			delete(l.elects, instance)
		}
	}
	change(1)
	return func() { change(-1) }
}

func (l *Log) isElecting(instance string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.elects[instance] > 0
}

const (
	// leadAgain is the time between two attempts to move the leader, and lookAgain the time after which the leader is asked for without news.
	leadAgain = 5 * time.Second
	lookAgain = 30 * time.Second
	// leadWithin bounds how long appends wait while the leader moves, which takes some tens of milliseconds.
	leadWithin = 2 * time.Second
)

// stay lets Options.Leader lead the stream until the writer ends: at first, and again after each election that another server has won.
func (w *writer) stay() {
	defer close(w.staying)
	want := w.log.options.Leader
	if want == "" {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		elected := w.elected()
		again := lookAgain
		if elected.leader != want && !w.lead(ctx, want) {
			again = leadAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-elected.next:
			if !wait(ctx, leadAgain) {
				return
			}
		case <-time.After(again):
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// lead makes a server the leader, unless it has no copy of all records, and reports whether it leads. Nothing is in flight while the leader moves, because a
// record that reaches no leader is lost and ends the writer.
func (w *writer) lead(ctx context.Context, server string) bool {
	info, err := w.log.info(ctx, w.stream, 0)
	if err != nil || info.Cluster == nil {
		return false
	}
	if info.Cluster.Leader == server {
		return true
	}
	if w.log.isElecting(w.instance) || !isCurrent(info.Cluster, server) {
		return false
	}
	release, ok := w.hold()
	if !ok {
		return false
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, leadWithin)
	defer cancel()
	return w.log.lead(ctx, info.Config.Name, server) == nil
}

func isCurrent(c *jetstream.ClusterInfo, server string) bool {
	for _, replica := range c.Replicas {
		if replica.Name == server {
			return replica.Current && !replica.Offline
		}
	}
	return false
}
