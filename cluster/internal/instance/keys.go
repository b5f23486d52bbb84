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
	d := i.drainer
	d.mu.Lock()
	open := map[string]*forebay.Engine{}
	for job, e := range d.jobs {
		if e != nil {
			open[job.k.Instance()] = e
		}
	}
	instances = slices.Clone(d.received)
	d.mu.Unlock()
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
