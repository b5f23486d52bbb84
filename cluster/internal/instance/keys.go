package instance

import (
	"context"
	"slices"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// KnownKey is the state of a key in this process.
type KnownKey struct {
	// Receipts are of calls with the key that have stored rows.
	Receipts []buffer.Receipt
	// Running says that a call with the key runs.
	Running bool
}

// Known returns what this process knows of some keys, in their order. instances are those for which it speaks: its own, and the adopted ones whose engine
// is open, or whose keys it has copied. It speaks for none if its own engine fails.
//
// While an adopted instance is restored no process speaks for it. The keys of a drained instance are in its adopter's.
func (i *Instance) Known(keys []buffer.Key) (instances []string, known []KnownKey) {
	known = make([]KnownKey, len(keys))
	open, instances := i.drainer.open()
	for instance, e := range open { // before its own, which gets their keys before they close
		if ask(e, keys, known) == nil {
			instances = append(instances, instance)
		}
	}
	if ask(i.engine, keys, known) != nil || i.ctx.Err() != nil {
		return nil, nil
	}
	return append(instances, i.keeper.Instance()), known
}

// HasRun returns whether this process has begun a replay of a sink under a name, or has taken it over, for the instances for which it speaks as in
// [Instance.Known]. Without own it looks at the adopted ones alone.
func (i *Instance) HasRun(ctx context.Context, source, sink, run string, own bool) (instances []string, has bool) {
	open, instances := i.drainer.open()
	for instance, e := range open { // before its own, which gets their positions before they close
		if found, err := e.Sink(source, sink).HasReplay(ctx, run); err == nil {
			instances, has = append(instances, instance), has || found
		}
	}
	if !own {
		return instances, has
	}
	found, err := i.engine.Sink(source, sink).HasReplay(ctx, run)
	if err != nil || i.ctx.Err() != nil {
		return nil, false
	}
	return append(instances, i.keeper.Instance()), has || found
}

// open returns the open engines of adopted instances, and the instances whose keys are in the instance of this node.
func (d *drainer) open() (open map[string]*forebay.Engine, received []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	open = map[string]*forebay.Engine{}
	for job, e := range d.jobs {
		if e != nil {
			open[job.k.Instance()] = e
		}
	}
	return open, slices.Clone(d.received)
}

// ask adds what an engine knows of keys.
func ask(e *forebay.Engine, keys []buffer.Key, known []KnownKey) error {
	for n, key := range keys {
		list, running, err := e.Buffer().Known(key)
		if err != nil {
			return err
		}
		known[n].Receipts = append(known[n].Receipts, list...)
		known[n].Running = known[n].Running || running
	}
	return nil
}

// receivedNames is how many instances a process speaks for after they are drained. Other nodes see moments later that they are.
const receivedNames = 32

// moveKeys copies the keys of calls from an adopted instance to the instance of this node, whose log has them then.
func (d *drainage) moveKeys(ctx context.Context, e *forebay.Engine) error {
	d.mu.Lock()
	before := slices.Contains(d.received, d.k.Instance())
	d.mu.Unlock()
	if before { // and a step after it has failed
		return nil
	}
	n, err := d.own.engine.Buffer().Moves().ReceiveReceipts(ctx, e.Buffer())
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.received = append(d.received, d.k.Instance())
	d.received = d.received[max(0, len(d.received)-receivedNames):]
	d.mu.Unlock()
	d.log.Debug("keys of calls moved", "receipts", n)
	return nil
}
