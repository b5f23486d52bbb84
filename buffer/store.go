package buffer

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/buffer/internal/salvage"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// openStore opens the database of the local level in a folder, with again only one that exists. b is nil for one that no
// buffer uses.
func openStore(dir string, opts Options, again bool, b *Buffer) (*pebblestore.Opening, error) {
	c := pebblestore.Config{
		Dir: dir, FS: localdisk.Of(opts), Log: opts.Logger, MemTable: opts.MemTableBytes, Exists: again, FillLogs: true, Limit: opts.MaxDiskBytes,
		Tune: func(o *pebble.Options) {
			o.MemTableStopWritesThreshold = 3
			// Rows that wait are deleted soon: to merge their tables is to write them once more for nothing. The store's own
			// thresholds (4, 12) do that: they wrote 1.3 to 1.5 bytes of tables for each byte held, these 0.75 to 0.85, with
			// a tenth less CPU. A wider level costs an upload a few more tables to look into. Where the store would stop
			// writes moves along, so that a backlog does not come near it.
			o.L0CompactionThreshold = 16
			o.L0StopWritesThreshold = 64
			// A table that lies across others is merged with them, so chunks and records get tables of their own: the last table
			// of a flush would else hold its newest chunks and all records. What is deleted lies across what lives in one table
			// of each flush; a flush has about 30. Slices of 6 s at full speed, 2 cores and ext4: 1.37 bytes of tables for each
			// byte without this, 0.99 with it.
			o.TargetFileSizes[0] = max(int64(o.MemTableSize)/32, 64<<10)
			o.Experimental.SpanPolicyFunc = pebble.MakeStaticSpanPolicyFunc(
				bytes.Compare, pebble.KeyRange{Start: []byte{format.PrefixChunk}, End: []byte{format.PrefixChunk + 1}}, pebble.SpanPolicy{},
			)
		},
	}
	if b != nil {
		c.Failed, c.Live, c.Beside, c.Roomier = b.storeFailed, b.neededBytes, b.staged.Load, b.serveRoom
	}
	st, err := pebblestore.Open(c)
	var small *pebblestore.RoomError
	if errors.As(err, &small) {
		return nil, &RoomError{Dir: small.Dir, Free: small.Free, Needed: small.Needed, For: small.For, err: err}
	}
	return st, err
}

// salvage replaces the damaged store by one with everything in it that is whole. cause is why it could not be opened.
func (b *Buffer) salvage(cause error) error {
	return salvage.Run(salvage.Config{
		Dir: b.dir, FS: b.fs, Log: b.log, Instance: newInstance(),
		Open: func(dir string) (*pebblestore.Opening, error) { return openStore(dir, b.opts, false, nil) },
	}, cause)
}

// neededBytes is what the store must keep: rows and receipts.
func (b *Buffer) neededBytes() int64 {
	b.receipts.mu.Lock()
	defer b.receipts.mu.Unlock()
	return b.local.Load() + b.receipts.bytes
}

// closeStore gives up on readers after a while: a driver that never returns must not hold up Close forever.
func closeStore(st *pebblestore.Opening) error { return st.CloseWithin(2 * abandonAfter) }
