package natsdriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
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
		leading := l.leading(instance)
		leading.RLock() // so that no writer moves the leader meanwhile
		defer leading.RUnlock()
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
		elected := l.options.elections.last(stream).next
		if _, err := l.conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, request); err != nil {
			return struct{}{}, err
		}
		select { // while there is no leader, no server responds
		case <-elected:
		case <-time.After(lateAfter):
		case <-ctx.Done():
		}
		return struct{}{}, fmt.Errorf("%s leads", leader)
	})
	return err
}

// leading returns the lock that decides who moves the leader of an instance's log: readers of each replica hold it shared, a writer alone.
func (l *Log) leading(instance string) *sync.RWMutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads[instance] == nil {
		l.leads[instance] = new(sync.RWMutex)
	}
	return l.leads[instance]
}

const (
	// lookEvery is the time between two looks at the leader and the replicas. leadWithin bounds one of them, and how long appends wait while the leader
	// moves, which takes some tens of milliseconds.
	lookEvery  = 2 * time.Second
	leadWithin = 2 * time.Second
	// replicaSilent is how long a replica is silent, which has a sign of life for the leader each second, until it counts as lost.
	replicaSilent = 2500 * time.Millisecond
)

// stay lets the best server lead the stream until the writer ends: Options.Leader whenever it can, and without one any server that is not slow.
func (w *writer) stay() {
	defer close(w.staying)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	look := w.leaveSlow()
	if want := w.log.options.Leader; want != "" {
		look = w.leadAt(want)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// leadAt returns a function that moves the leader to a server, unless the server lacks records.
//
// A server that was stopped or cut off asks for votes when it is back, before it hears that there is a leader. The leader steps down for it, and the next
// one is elected up to nine seconds later if that server is known to lag, because it asks under a higher term than the leader's. So when a replica
// falls silent, the leader moves to the other one and back, which raises its term by two. Then the lost replica, which raises its term by one,
// follows it.
func (w *writer) leadAt(want string) func(context.Context) {
	return func(ctx context.Context) {
		info := w.info(ctx)
		if info == nil {
			return
		}
		silent, current := replicas(info)
		switch {
		case info.Cluster.Leader != want:
			if slices.Contains(current, want) {
				w.move(ctx, want)
			}
		case len(current) > 0 && w.log.newlySilent(w.instance, silent, current):
			w.move(ctx, current[0], want)
		}
	}
}

// newlySilent notes the silent replicas of an instance's log, and reports whether one of them is new. The next writer knows them too, or a writer whose
// records end with the move would be followed by one that moves again.
func (l *Log) newlySilent(instance string, silent, current []string) (found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := slices.DeleteFunc(l.silent[instance], func(name string) bool { return slices.Contains(current, name) })
	for _, name := range silent {
		if !slices.Contains(known, name) {
			known, found = append(known, name), true
		}
	}
	l.silent[instance] = known
	return found
}

const (
	// slowLeader is the mean time for a record from which a leader counts as slow. The mean needs paceRecords.
	slowLeader  = 100 * time.Millisecond
	paceRecords = 16
	// triedFor is how long the pace under a leader counts.
	triedFor = 10 * time.Minute
)

// leaveSlow returns a function that moves the leader away from a slow server: to each other one for a try, and then to the one whose records take less than
// half the time, if there is any.
func (w *writer) leaveSlow() func(context.Context) {
	took := map[string]time.Duration{} // by leader
	since := time.Now()
	return func(ctx context.Context) {
		pace := w.log.Pace(w.instance)
		if pace.Records < paceRecords || pace.Leader == "" {
			return
		}
		if time.Since(since) > triedFor {
			clear(took)
			since = time.Now()
		}
		if took[pace.Leader] = pace.Took; pace.Took < slowLeader {
			return
		}
		info := w.info(ctx)
		if info == nil || info.Cluster.Leader != pace.Leader {
			return
		}
		best, most := "", pace.Took/2
		_, current := replicas(info)
		for _, name := range current {
			if took[name] < most { // 0 before it was tried
				best, most = name, took[name]
			}
		}
		if best != "" {
			took[best] = max(took[best], pace.Took/2) // until it leads: a server that cannot lead is not tried again and again
			w.move(ctx, best)
			w.log.forgetPace(w.instance)
		}
	}
}

// info returns the state of the stream, or nil if the leader does not respond.
func (w *writer) info(ctx context.Context) *jetstream.StreamInfo {
	ctx, cancel := context.WithTimeout(ctx, leadWithin)
	defer cancel()
	info, err := w.log.info(ctx, w.stream, 0)
	if err != nil || info.Cluster == nil {
		return nil
	}
	return info
}

// replicas returns the names of the replicas that are silent, and of the replicas that have all records. The leader is neither.
func replicas(info *jetstream.StreamInfo) (silent, current []string) {
	for _, r := range info.Cluster.Replicas {
		switch {
		case r.Offline || r.Active > replicaSilent:
			silent = append(silent, r.Name)
		case r.Current:
			current = append(current, r.Name)
		}
	}
	return silent, current
}

// move makes servers lead, one after the other. Nothing is in flight while the leader moves, because a record that reaches no leader is lost and ends the
// writer.
func (w *writer) move(ctx context.Context, servers ...string) {
	release, ok := w.hold()
	if !ok {
		return
	}
	defer release()
	leading := w.log.leading(w.instance)
	if !leading.TryLock() {
		return // the next look tries again
	}
	defer leading.Unlock()
	for _, server := range servers {
		ctx, cancel := context.WithTimeout(ctx, leadWithin)
		_ = w.log.lead(ctx, w.stream.CachedInfo().Config.Name, server) // the next look sees who leads
		cancel()
	}
}
