package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"
)

// loss is what happens to a node.
type loss struct {
	node int
	kind lossKind
}

// lossKind is the name of a loss in the flag -kinds and in the table.
type lossKind string

// The losses.
const (
	away    lossKind = "away"
	back    lossKind = "back"
	wiped   lossKind = "wiped"
	paused  lossKind = "paused"
	adopter lossKind = "adopter"
	stopped lossKind = "stopped"
	all     lossKind = "all"
	damaged lossKind = "damaged"
	cut     lossKind = "cut"
	blink   lossKind = "blink"
	deaf    lossKind = "deaf"
	link    lossKind = "link"
	far     lossKind = "far"
	clock   lossKind = "clock"
	disk    lossKind = "disk"
	rebuilt lossKind = "build"
)

// does describes each kind, with the node as its subject.
var does = map[lossKind]string{
	away:    "is killed, and stays away until another node has moved its rows",
	back:    "is killed, and comes back at once",
	wiped:   "is killed, loses its disk, and comes back without it",
	paused:  "stands still until another node has moved its rows, and continues",
	adopter: "is killed, and then the node that takes over, before both come back",
	stopped: "is stopped in good order, and comes back at once",
	all:     "and all others are killed, and come back at once",
	damaged: "is killed, and comes back with a damaged copy of a log",
	cut:     "is cut off from the others until another node has moved its rows",
	blink:   "is cut off from the others for a moment",
	deaf:    "does not hear the others for a while",
	link:    "and the next one do not hear each other for a while",
	far:     "is 170 ms away from the others for a while",
	clock:   "has a clock that jumps by minutes and hours, forward and back",
	disk:    "has a disk that takes 50 to 500 ms for each sync, for a while",
	rebuilt: "is stopped in good order, and comes back as the other build",
}

// network connects the nodes.
type network interface {
	// address returns three addresses of a node: its server's, the advertised one, and its peers'.
	address(node int) (listen, advertise string, peers []string)
	// start starts the process of a node, and dial connects to it.
	start(node int, cmd *exec.Cmd) error
	dial(node int) func(ctx context.Context, network, address string) (net.Conn, error)
	// cut swallows all that one node sends to another, moveAway delays all that a node sends to others and they to it, and heal lets everything flow again.
	cut(from, to int) error
	moveAway(node int, delay time.Duration) error
	heal() error
}

// A blink lasts for a moment, shorter than the lease, and some other losses for a while, longer than that. A slow one lasts long.
const (
	moment = 2 * time.Second
	while  = 7 * time.Second
	long   = 15 * time.Second
)

// losses are the three of the story, or as many at random as the flag says.
func (c config) losses() []loss {
	if c.cycles == 0 {
		return []loss{{0, away}, {1, back}, {2, wiped}}
	}
	kinds := []lossKind{away, back, wiped, adopter, stopped, all, damaged}
	if canPause {
		kinds = append(kinds, paused)
	}
	if c.connect != nil {
		kinds = append(kinds, cut, blink, deaf, link, far)
	}
	if c.program != "" {
		kinds = append(kinds, clock, disk)
	}
	if c.other != "" {
		kinds = append(kinds, rebuilt)
	}
	if len(c.kinds) > 0 {
		kinds = slices.DeleteFunc(kinds, func(k lossKind) bool { return !slices.Contains(c.kinds, string(k)) })
	}
	rng := rand.New(rand.NewPCG(c.seed, 0))
	var list []loss
	for i := range c.cycles {
		if i%len(kinds) == 0 { // each kind as often as the others
			rng.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
		}
		list = append(list, loss{rng.IntN(c.size), kinds[i%len(kinds)]})
	}
	return list
}

// lose loses a node while events are sent, and returns when the cluster has recovered, which means that the table has all rows that the node had
// acknowledged, and all nodes are ready.
func (r *runner) lose(ctx context.Context, l loss) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	p := r.nodes[l.node]
	instance := p.instance()
	r.screen.say("%s (%s) %s", p.Name, instance, does[l.kind])
	begin := time.Now()
	r.hurt = []*process{p}
	r.beginFault()
	ids, err := r.loseAndStart(ctx, p, instance, l)
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
	if err := r.heals(ctx, l.kind, begin); err != nil {
		return err
	}
	if l.kind == wiped { // all rows may have been in the table before
		if _, err := r.adopted(ctx, instance); err != nil {
			return err
		}
	}
	if l.kind == damaged { // or the next loss would be the second fault
		if err := r.repair(ctx, p); err != nil {
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

// loseAndStart loses a node and starts again whatever was lost. It returns the ids that the node had acknowledged.
func (r *runner) loseAndStart(ctx context.Context, p *process, instance string, l loss) (ids []string, err error) {
	switch l.kind {
	case paused:
		return r.silence(ctx, p, instance, p.pause, p.resume)
	case cut:
		return r.silence(ctx, p, instance, func() error { return r.cut(l) }, r.net.heal)
	case blink:
		return r.forA(ctx, moment, p, func() error { return r.cut(l) }, r.net.heal)
	case deaf, link:
		return r.forA(ctx, while, p, func() error { return r.cut(l) }, r.net.heal)
	case far:
		return r.forA(ctx, long, p, func() error { return r.net.moveAway(l.node, 85*time.Millisecond) }, r.net.heal)
	case disk:
		return r.forA(ctx, long, p, func() error { return p.disturb(0, 500*time.Millisecond) }, p.calm)
	case clock:
		jump := func() time.Duration { return time.Minute + time.Duration(r.rng.Int64N(int64(12*time.Hour))) }
		back := func() error {
			if p.clockIsRight(ctx) {
				return fmt.Errorf("the clock of node %s did not jump: its program %s was not built for that", p.Name, p.program)
			}
			return p.disturb(-jump(), 0)
		}
		if _, err := r.forA(ctx, while, p, func() error { return p.disturb(jump(), 0) }, back); err != nil {
			return nil, err
		}
		return r.forA(ctx, while, p, func() error { return nil }, p.calm)
	}
	lost := []*process{p}
	if l.kind == stopped || l.kind == rebuilt {
		err = p.stop()
	} else {
		p.kill()
	}
	ids = r.of(p)
	if err != nil {
		return nil, err
	}
	switch l.kind {
	case away:
		_, err = r.adopted(ctx, instance)
	case rebuilt:
		p.program, p.next = p.next, p.program
	case wiped:
		err = p.wipe()
	case damaged:
		var what string
		var done bool
		if what, done, err = p.damage(r.rng); err == nil {
			if done {
				r.damaged++
			}
			r.screen.say("%s: %s", p.Name, what)
			r.over()
			return ids, r.startDamaged(ctx, p)
		}
	case adopter:
		var other *process
		if other, err = r.taken(ctx, instance); err == nil {
			other.kill()
			lost = append(lost, other)
			r.hurt = lost
		}
	case all:
		r.hurt = r.nodes
		for _, other := range r.nodes {
			if other != p {
				other.kill()
				lost = append(lost, other)
			}
		}
	}
	r.over()
	for _, p := range lost {
		err = errors.Join(err, p.start())
	}
	return ids, err
}

// silence makes a node fall silent, and ends that when another node has moved its rows.
func (r *runner) silence(ctx context.Context, p *process, instance string, begin, end func() error) (ids []string, err error) {
	if err := begin(); err != nil {
		return nil, err
	}
	ids = r.of(p)
	_, err = r.adopted(ctx, instance)
	if err = errors.Join(err, end()); err != nil {
		return nil, err
	}
	r.over()
	// It may not have noticed yet that time has passed.
	return ids, p.await(ctx, "back", func() bool { return p.status.Instance != instance && p.status.Ready })
}

// cut drops the traffic between a node and the others, or only the next one, or only the traffic to the node.
func (r *runner) cut(l loss) (err error) {
	p := r.nodes[l.node]
	p.set(func() { p.what = "cut off" })
	for other := range r.nodes {
		if other == l.node || l.kind == link && other != (l.node+1)%len(r.nodes) {
			continue
		}
		if l.kind == link {
			r.hurt = append(r.hurt, r.nodes[other])
		}
		err = errors.Join(err, r.net.cut(other, l.node))
		if l.kind != deaf {
			err = errors.Join(err, r.net.cut(l.node, other))
		}
	}
	return err
}

// forA disturbs a node for a time. Whether it loses its instance depends on how busy the machine is, and on who leads.
func (r *runner) forA(ctx context.Context, d time.Duration, p *process, begin, end func() error) (ids []string, err error) {
	if err := begin(); err != nil {
		return nil, err
	}
	ids = r.of(p)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	err = errors.Join(context.Cause(ctx), end())
	r.over()
	return ids, err
}

// over notes that a fault is over, from which the cluster heals.
func (r *runner) over() {
	r.ended.Store(time.Now().UnixNano())
	r.unready.Store(0)
}

// heals waits until all nodes have been ready for as long as the flag says, and notes how long after the end of the fault one of them was not.
func (r *runner) heals(ctx context.Context, kind lossKind, begin time.Time) error {
	if r.settle == 0 {
		return nil
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		last := max(r.ended.Load(), r.unready.Load())
		if took := time.Duration(last - r.ended.Load()); time.Since(time.Unix(0, last)) >= r.settle {
			f := r.figures[kind]
			if f == nil {
				f = new(figures)
				r.figures[kind] = f
			}
			f.add(r.acks(), begin, time.Now(), took, r.nodes, r.hurt)
			r.screen.say("all nodes are ready %.1fs after the fault", took.Seconds())
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// startDamaged starts a node whose server has a damaged file. Some of them end the process because a server of NATS 2.15 that cannot recover a stream
// may panic. Then the server begins with an empty disk.
func (r *runner) startDamaged(ctx context.Context, p *process) error {
	p.frail.Store(true)
	defer p.frail.Store(false)
	if err := p.start(); err != nil {
		return err
	}
	gone := false
	if err := p.await(ctx, "up", func() bool { gone = p.gone; return gone || p.told.Address != "" }); err != nil || !gone {
		return err
	}
	<-p.ended
	r.screen.say("%s cannot start with the damaged file (%v), and gets an empty one from the others", p.Name, p.err)
	return errors.Join(os.RemoveAll(p.server()), p.start())
}

// repair gives the server of a node an empty disk, which the other servers fill.
func (r *runner) repair(ctx context.Context, p *process) error {
	p.kill()
	if err := errors.Join(os.RemoveAll(p.server()), p.start()); err != nil {
		return err
	}
	return r.everybodyReady(ctx)
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
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, p := range r.nodes {
			p.mu.Lock()
			ok := met(p.status)
			p.mu.Unlock()
			if ok {
				return p, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("no node takes over %s: %w; see the logs in %s", instance, context.Cause(ctx), r.dir)
		}
	}
}
