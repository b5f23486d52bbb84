package changelog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// Adopt watches all instances and adopts each whose owner falls silent, until ctx ends or own, the Keeper of this node's own instance.
// It returns own.Err.
//
// For each instance that it adopts it calls restore in a separate goroutine, with a Keeper that holds a new epoch in the state
// Adopting. The ctx of restore ends with that Keeper, too. Adopt closes the Keeper when restore has returned. An instance that is not
// [Drained], [Retired] or [Damaged] by then falls silent again, and a candidate adopts it. Adopt waits for all calls of restore before
// it returns.
//
// Silence is what this process measures on its own monotonic clock while one version of a record stands, and only over intervals
// at both ends of which a beat of own succeeded at the first attempt. Otherwise a store of owners that is away for a lease would make
// every node adopt every other. An instance is adopted after one lease of silence, its owner's or this node's if that is longer,
// by replacing exactly the version that was silent. An owner that has beaten meanwhile keeps its instance, and of several candidates
// one wins. The instances that own's node had before it lost its disk are adopted in the same way.
func Adopt(ctx context.Context, own *Keeper, restore func(context.Context, *Keeper)) error {
	ctx, cancel := context.WithCancel(ctx)
	c := &candidate{
		own: own, restore: restore, seen: make(map[string]*silence),
		held: map[string]bool{own.instance: true}, ended: make(chan string),
	}
	defer c.background.Wait()
	defer cancel()
	changes := make(chan Versioned)
	c.background.Go(func() { c.watch(ctx, changes) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return own.Err() // whoever was fenced hears of it, even if ctx has ended too
		case <-own.Done():
			return own.Err()
		case v := <-changes:
			c.see(v)
		case instance := <-c.ended:
			delete(c.held, instance)
		case <-timer.C:
			c.probe(ctx)
			timer.Reset(c.untilProbe())
		}
	}
}

// candidate is the state of one Adopt. Its goroutine alone uses it, except where a comment says otherwise.
type candidate struct {
	own        *Keeper
	restore    func(context.Context, *Keeper)
	background sync.WaitGroup

	seen map[string]*silence // by instance
	// held are the instances that this process holds, and ended those whose restore has returned.
	held  map[string]bool
	ended chan string
	// probed is when the last probe began, or zero if it failed.
	probed time.Time
}

// silence is a candidate's knowledge of the owner of an instance.
type silence struct {
	owner   Owner
	version Version
	since   time.Time // when this version was seen
	lasted  time.Duration
	// unsure says that this process may have adopted the instance without learning it.
	unsure bool
}

// watch forwards the changes of all records. It runs in its own goroutine.
func (c *candidate) watch(ctx context.Context, changes chan<- Versioned) {
	for warned := false; ; {
		for v, err := range c.own.owners.Watch(ctx, ownerPrefix) {
			if err != nil {
				if !warned && ctx.Err() == nil {
					c.own.opts.Logger.Warn("records of owners not watched", "cause", err, "next", "it is retried automatically")
				}
				warned = true
				break
			}
			warned = false
			select {
			case changes <- v:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(c.own.opts.Lease / 12):
		case <-ctx.Done():
			return
		}
	}
}

// see notes a record. A version that was seen before is no sign of life.
func (c *candidate) see(v Versioned) {
	if v.Version == 0 { // it has seen all records
		c.count()
		return
	}
	instance, ok := strings.CutPrefix(v.Key, ownerPrefix)
	last := c.seen[instance]
	if !ok || last != nil && last.version == v.Version {
		return
	}
	next := &silence{version: v.Version, since: time.Now()}
	if err := next.owner.UnmarshalJSON(v.Value); err != nil {
		c.own.opts.Logger.Warn("record of an instance not readable", "instance", instance, "cause", err, "next", "upgrade this node if a newer release wrote it")
		next.owner = Owner{}
	}
	next.unsure = last != nil && last.unsure && next.owner.Session == c.own.session
	c.seen[instance] = next
	if c.own.states.Load() != nil && (last == nil || last.owner.State != next.owner.State) {
		c.count()
	}
}

// count publishes how many instances are in each state. The store does not say when the record of a retired instance is deleted, so it leaves
// these out.
func (c *candidate) count() {
	states := map[OwnerState]int{}
	for _, s := range c.seen {
		if s.owner.State != "" && s.owner.State != Retired {
			states[s.owner.State]++
		}
	}
	c.own.states.Store(&states)
}

// probe makes one beat of the own instance, counts the silence of the others if it succeeds, and adopts.
func (c *candidate) probe(ctx context.Context) {
	from, to := c.probed, time.Now()
	c.probed = time.Time{}
	if c.own.once(ctx) != nil {
		return
	}
	c.probed = to
	// This process itself stood still if it took longer.
	if from.IsZero() || to.Sub(from) > c.own.opts.Lease/2 {
		return
	}
	for instance, s := range c.seen {
		if !c.silent(instance, s) {
			continue
		}
		s.lasted += max(0, to.Sub(later(from, s.since)))
		if (s.unsure || s.lasted >= c.lease(s)) && !c.adopt(ctx, instance, s) {
			return
		}
	}
}

// silent reports whether the silence of an instance counts.
func (c *candidate) silent(instance string, s *silence) bool {
	return !c.held[instance] && s.owner.State.live()
}

func (c *candidate) lease(s *silence) time.Duration { return max(s.owner.Lease, c.own.opts.Lease) }

// untilProbe returns when to probe, often enough that an interval counts, and when a silence has lasted long enough.
func (c *candidate) untilProbe() time.Duration {
	wait := c.own.opts.Lease / 4
	for instance, s := range c.seen {
		if c.silent(instance, s) && !c.probed.IsZero() {
			wait = min(wait, c.lease(s)-s.lasted-time.Since(later(c.probed, s.since)))
		}
	}
	return max(wait, c.own.opts.Lease/48)
}

// adopt tries once to take over an instance. It returns false if the store of owners did not respond. Then it tries nothing until a
// probe succeeds.
func (c *candidate) adopt(ctx context.Context, instance string, s *silence) bool {
	k := newKeeper(c.own.owners, instance, c.own.session, c.own.opts)
	k.held, k.at = s.owner, s.version
	k.SetReleased(s.owner.Released)
	if err := k.attempt(ctx, true, func(o *Owner) error { o.State = Adopting; return nil }); err != nil {
		k.cancel(err)
		lost := errors.Is(err, ErrLost)
		if lost {
			s.lasted = 0 // the watch will show who was first
		}
		s.unsure = !lost || s.unsure
		return lost
	}
	s.unsure = false
	c.held[instance] = true
	c.own.opts.Logger.Warn("instance adopted from a silent node", "instance", instance, "node", s.owner.Node,
		"silent", s.lasted, "epoch", k.held.Epoch, "next", "find out why that node was silent")
	k.start()
	c.background.Go(func() {
		c.run(ctx, k)
		select {
		case c.ended <- instance:
		case <-ctx.Done():
		}
	})
	return true
}

// run calls restore for an adopted instance. It runs in a separate goroutine.
func (c *candidate) run(ctx context.Context, k *Keeper) {
	defer k.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	c.restore(ctx, k)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
