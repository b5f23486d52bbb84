package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// loss is what happens to a node.
type loss struct {
	node int
	kind lossKind
}

type lossKind string

// The losses.
const (
	away    lossKind = "is killed, and stays away until another node has moved its rows"
	back    lossKind = "is killed, and comes back at once"
	wiped   lossKind = "is killed, loses its disk, and comes back without it"
	paused  lossKind = "stands still until another node has moved its rows, and goes on"
	adopter lossKind = "is killed, and then the node that takes over, before both come back"
	stopped lossKind = "is stopped in good order, and comes back at once"
	all     lossKind = "and all others are killed, and come back at once"
)

// losses are the three of the story, or as many at random as the flag says.
func (c config) losses() []loss {
	if c.cycles == 0 {
		return []loss{{0, away}, {1, back}, {2, wiped}}
	}
	kinds := []lossKind{away, back, wiped, adopter, stopped, all}
	if canPause {
		kinds = append(kinds, paused)
	}
	rng := rand.New(rand.NewPCG(c.seed, 0))
	var list []loss
	for i := range c.cycles {
		if i%len(kinds) == 0 { // each kind as often as the others
			rng.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
		}
		list = append(list, loss{rng.IntN(size), kinds[i%len(kinds)]})
	}
	return list
}

// lose loses a node while events are sent, and returns when the cluster has recovered: the table has what the node had acknowledged,
// and all nodes are ready.
func (r *runner) lose(ctx context.Context, l loss) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	p := r.nodes[l.node]
	instance := p.instance()
	r.screen.say("%s (%s) %s", p.Name, instance, l.kind)
	begin := time.Now()
	ids, err := r.loseAndStart(ctx, p, instance, l.kind)
	if err != nil {
		return err
	}
	if err := r.table.await(ctx, ids); err != nil {
		return fmt.Errorf("rows that %s had acknowledged are not in the table: %w", p.Name, err)
	}
	took := time.Since(begin)
	r.recovered = max(r.recovered, took)
	if err := r.everybodyReady(ctx); err != nil {
		return err
	}
	if l.kind == wiped { // all rows may have been in the table before
		if _, err := r.adopted(ctx, instance); err != nil {
			return err
		}
	}
	for _, p := range r.nodes {
		p.set(func() { p.what = "" })
	}
	r.screen.say("%s is back as %s; the %d rows that it had acknowledged are in the table, the last one after %.1fs",
		p.Name, p.instance(), len(ids), took.Seconds())
	return nil
}

// loseAndStart loses a node and starts again what it has lost. It returns what the node had acknowledged.
func (r *runner) loseAndStart(ctx context.Context, p *process, instance string, kind lossKind) (ids []string, err error) {
	if kind == paused {
		if err := p.pause(); err != nil {
			return nil, err
		}
		ids = r.of(p)
		if _, err := r.adopted(ctx, instance); err != nil {
			return nil, err
		}
		if err := p.resume(); err != nil {
			return nil, err
		}
		// It has not noticed yet that time has passed.
		return ids, p.await(ctx, "back", func() bool { return p.status.Instance != instance && p.status.Ready })
	}
	lost := []*process{p}
	if kind == stopped {
		err = p.stop()
	} else {
		p.kill()
	}
	ids = r.of(p)
	if err != nil {
		return nil, err
	}
	switch kind {
	case away:
		_, err = r.adopted(ctx, instance)
	case wiped:
		err = p.wipe()
	case adopter:
		var other *process
		if other, err = r.taken(ctx, instance); err == nil {
			other.kill()
			lost = append(lost, other)
		}
	case all:
		for _, other := range r.nodes {
			if other != p {
				other.kill()
				lost = append(lost, other)
			}
		}
	}
	for _, p := range lost {
		err = errors.Join(err, p.start())
	}
	return ids, err
}

// adopted waits until another node has moved the rows of an instance.
func (r *runner) adopted(ctx context.Context, instance string) (*process, error) {
	p, err := r.find(ctx, instance, func(s readiness) bool { return slices.Contains(s.Adopted, instance) })
	if err == nil {
		r.screen.say("%s has moved the rows of %s", p.Name, instance)
	}
	return p, err
}

// taken waits until another node has begun to move the rows of an instance. It may have moved them by then.
func (r *runner) taken(ctx context.Context, instance string) (*process, error) {
	p, err := r.find(ctx, instance, func(s readiness) bool {
		return slices.Contains(s.Adopting, instance) || slices.Contains(s.Adopted, instance)
	})
	if err == nil {
		r.screen.say("%s takes over %s, and is killed", p.Name, instance)
	}
	return p, err
}

// find waits for a node whose state meets a condition.
func (r *runner) find(ctx context.Context, instance string, met func(readiness) bool) (*process, error) {
	for {
		changed := r.table.changes()
		for _, p := range r.nodes {
			p.mu.Lock()
			ok := met(p.status)
			p.mu.Unlock()
			if ok {
				return p, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("no node takes over %s: %w; see the logs in %s", instance, context.Cause(ctx), r.dir)
		}
	}
}
