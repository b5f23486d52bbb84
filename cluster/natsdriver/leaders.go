package natsdriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
