package buffer

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// databaseConfig says how the database of a local level is opened.
func databaseConfig(dir string, opts Options) pebblestore.Config {
	return pebblestore.Config{
		Dir: dir, FS: localdisk.Of(opts), Log: opts.Logger, MemTable: opts.MemTableBytes, FillLogs: true, Limit: opts.MaxDiskBytes,
		ClosingLogs: 256 << 10, Patience: patience,
		Tune: func(o *pebble.Options) {
			o.MemTableStopWritesThreshold = 3
			// Rows that wait are deleted soon, so to merge their tables is to write them once more for nothing. The store's own
			// thresholds (4, 12) do that. They wrote 1.3 to 1.5 bytes of tables for each byte held, these 0.75 to 0.85, with
			// a tenth less CPU. A wider level costs an upload a few more tables to look into. Where the store would stop
			// writes moves along, so that a backlog does not come near it.
			o.L0CompactionThreshold = 16
			o.L0StopWritesThreshold = 64
			// A table that spans others is merged with them, so chunks and records get separate tables, because the last table of a
			// flush would else hold its newest chunks and all records. Deleted data spans live data in one table of each flush.
			// A flush has about 30. Slices of 6 s at full speed, 2 cores and ext4: 1.37 bytes of tables for each byte without
			// this, 0.99 with it.
			o.TargetFileSizes[0] = max(int64(o.MemTableSize)/32, 64<<10)
			o.Experimental.SpanPolicyFunc = pebble.MakeStaticSpanPolicyFunc(
				bytes.Compare, pebble.KeyRange{Start: []byte{format.PrefixChunk}, End: []byte{format.PrefixChunk + 1}}, pebble.SpanPolicy{},
			)
		},
	}
}

func (b *Buffer) newStore() *pebblestore.Store {
	c := pebblestore.StoreConfig{
		Config: databaseConfig(b.dir, b.opts), Name: "local level", Check: b.recoverStore, Repair: b.salvage, Install: b.handOver,
		Delay: b.opts.Retry.delay,
	}
	if b.opts.OnDamage != nil {
		c.Corrupted = func(err error) { b.reportDamage(err) }
	}
	c.Live, c.Beside, c.Roomier = b.neededBytes, b.admission.staged.Load, b.admission.roomier
	c.Prepare = func() error {
		for _, prepare := range []func(vfs.FS, string) error{
			refuseSnapshot, pebblestore.FinishSwap, pebblestore.CheckClosed, b.beginFormat, pebblestore.ForgetClosed,
		} {
			if err := prepare(b.fs, b.dir); err != nil {
				return err
			}
		}
		return nil
	}
	c.Final = func() bool { return b.fenced.Load() != nil || b.unsound.Load() != nil }
	c.Failed = func() {
		b.gate.kick()
		b.syncs.wake()
	}
	c.Closed = func() {
		if err := pebblestore.NoteClosed(b.fs, b.dir); err != nil {
			b.log.Warn("clean shutdown not recorded", "cause", err, "next", "none; the next start recovers as after a crash") // Open then takes it for a crash
		}
	}
	return pebblestore.NewStore(c)
}

// patience is how long a store that is closed waits for its readers, because a driver that never returns must not hold up Close forever.
const patience = 2 * abandonAfter

// recoverStore reads the state of a store that was just opened. With again the store must belong to this instance.
func (b *Buffer) recoverStore(o *pebblestore.Opening, again bool) (err error) {
	number, err := b.follow(o.DB)
	if err != nil {
		return err
	}
	file, err := checkFormat(b.fs, b.dir, format.Newest)
	if err != nil {
		return err
	}
	if b.recovered, err = b.recoverState(o.DB, file, number); err != nil {
		return err
	}
	if err := b.recovered.upgradeFormat(b, file); err != nil {
		return err
	}
	if err := b.recovered.sealDamaged(); err != nil {
		return err
	}
	if err := b.recovered.adopt(b.fs, b.dir); err != nil {
		return err
	}
	// A folder that was replaced meanwhile has other numbers, and continuing in it would give ids a second time.
	if again && b.recovered.instance != b.instance {
		return fmt.Errorf("the data directory was replaced: it belongs to instance %s, not to %s; close the engine and open it again",
			b.recovered.instance, b.instance)
	}
	return nil
}

// salvage replaces a damaged store by one with everything in it that is whole, under a new instance. A changelog has more data
// than that, and the log of this instance could not continue.
func (b *Buffer) salvage(cause *pebblestore.DamageError) error {
	if b.opts.Changelog != nil {
		d := b.storeDamage(cause)
		b.damaged.Store(d)
		b.reportDamage(cause) // no effect in Open, which returns the damage
		return d
	}
	version, err := checkFormat(b.fs, b.dir, format.Newest)
	if err != nil {
		return err
	}
	if err := salvage.Run(salvage.Config{
		Dir: b.dir, FS: b.fs, Log: b.log, Instance: newInstance(), Version: cmp.Or(version, format.Typed),
		Open: func(dir string) (*pebblestore.Opening, error) { return pebblestore.Open(databaseConfig(dir, b.opts)) },
	}, cause); err != nil {
		return fmt.Errorf("%w; the undamaged rows could not be salvaged, nothing was changed: %w", cause, err)
	}
	return nil
}

// neededBytes is the data that the store must keep, rows and receipts.
func (b *Buffer) neededBytes() int64 {
	b.receipts.mu.Lock()
	defer b.receipts.mu.Unlock()
	return b.admission.local.Load() + b.receipts.bytes
}
