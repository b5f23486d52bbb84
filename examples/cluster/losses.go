package main

import (
	"context"
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
	// away: killed, and started again when another node has moved its rows.
	away lossKind = "is killed, and stays away until another node has moved its rows"
	// back: killed and started again at once.
	back lossKind = "is killed, and comes back at once"
	// wiped: killed, and started again without its disk.
	wiped lossKind = "is killed, loses its disk, and comes back without it"
	// paused: stands still until another node has moved its rows, and goes on.
	paused lossKind = "stands still until another node has moved its rows, and goes on"
)

// losses are the three of the story, or as many at random as the flag says.
func (c config) losses() []loss {
	if c.cycles == 0 {
		return []loss{{0, away}, {1, back}, {2, wiped}}
	}
	kinds := []lossKind{away, back, wiped}
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
	if l.kind == paused {
		if err := p.pause(); err != nil {
			return err
		}
	} else {
		p.kill()
	}
	ids := r.of(p)
	if l.kind == wiped {
		if err := p.wipe(); err != nil {
			return err
		}
	}
	if l.kind == away || l.kind == paused {
		if err := r.adopted(ctx, instance); err != nil {
			return err
		}
	}
	if l.kind == paused {
		if err := p.resume(); err != nil {
			return err
		}
		// It has not noticed yet that time has passed.
		if err := p.await(ctx, "back", func() bool { return p.status.Instance != instance && p.status.Ready }); err != nil {
			return err
		}
	} else if err := p.start(); err != nil {
		return err
	}
	if err := r.table.await(ctx, ids); err != nil {
		return fmt.Errorf("rows that %s had acknowledged are not in the table: %w", p.Name, err)
	}
	took := time.Since(begin)
	r.recovered = max(r.recovered, took)
	if err := p.awaitReady(ctx); err != nil {
		return err
	}
	if l.kind == wiped {
		if err := r.adopted(ctx, instance); err != nil {
			return err
		}
	}
	if err := r.everybodyReady(ctx); err != nil {
		return err
	}
	p.set(func() { p.what = "" })
	r.screen.say("%s is back as %s; the %d rows that it had acknowledged are in the table, the last one after %.1fs",
		p.Name, p.instance(), len(ids), took.Seconds())
	return nil
}

// adopted waits until another node has moved the rows of an instance.
func (r *runner) adopted(ctx context.Context, instance string) error {
	for {
		changed := r.table.changes()
		for _, p := range r.nodes {
			p.mu.Lock()
			ok := slices.Contains(p.status.Adopted, instance)
			p.mu.Unlock()
			if ok {
				r.screen.say("%s has moved the rows of %s", p.Name, instance)
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("no node takes over %s: %w; see the logs in %s", instance, context.Cause(ctx), r.dir)
		}
	}
}
