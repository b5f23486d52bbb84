package salvage

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Config says which store is salvaged, and into which one. All fields are needed.
type Config struct {
	// Dir is the folder of the damaged store on FS. No process has the store open.
	Dir string
	FS  vfs.FS
	// Log gets the losses.
	Log *slog.Logger
	// Instance is the name of the new store, which was never used before.
	Instance string
	// Version is the version of the format. The new store has a later version if its records need it.
	Version int
	// Open creates a store in an empty folder.
	Open func(dir string) (*pebblestore.Opening, error)
}

// Run replaces a damaged store by a new one with everything that is whole. cause is why it could not be opened. With an
// error the damaged store is where it was, or [pebblestore.FinishSwap] completes the swap.
func Run(c Config, cause *pebblestore.DamageError) error {
	lost := &losses{at: time.Now().UTC()}
	lost.store = pebblestore.Aside(lost.at)
	c.Log.Error("local level damaged", "dir", c.Dir, "aside", lost.store, "cause", cause, "next", "its intact rows are salvaged; check the disk")
	f := newFound()
	err := pebblestore.Scan(c.FS, c.Dir, f.take, func(file, what string) {
		lost.lose(format.Damage{FirstChunk: -1, LastChunk: -1, Uncounted: true, Reason: fmt.Sprintf(
			"%s of the store: %s; rows that stood there and that no record speaks of are not counted", file, what)})
	})
	if err == nil {
		err = f.takeCopy(c.FS, c.Dir)
	}
	if err != nil {
		return err
	}
	if len(lost.list) == 0 && !cause.Index {
		lost.lose(format.Damage{
			FirstChunk: -1, LastChunk: -1, Uncounted: true,
			Reason: fmt.Sprintf("%v; everything else could be read, and what only stood there is not counted", cause),
		})
	}
	folder := c.FS.PathJoin(c.Dir, pebblestore.NewFolder)
	if err := write(c, folder, settle(f, lost, c.Instance, c.Version)); err != nil {
		return errors.Join(err, c.FS.RemoveAll(folder))
	}
	if err := pebblestore.Swap(c.FS, c.Dir, lost.store); err != nil {
		return err
	}
	for _, d := range lost.list {
		Log(c.Log, d)
	}
	c.Log.Warn("local level salvaged", "dir", c.Dir, "aside", lost.store, "places", len(lost.list), "next", "keep the folder that aside names until you have checked the rows")
	return nil
}

// losses gathers the damage that is reported.
type losses struct {
	at    time.Time // when it was found
	store string    // the folder of the damaged store
	list  []format.Damage
}

func (l *losses) lose(d format.Damage) {
	d.At, d.Store = l.at, l.store
	l.list = append(l.list, d)
}

// batchBytes is how many bytes of chunks are written at once.
const batchBytes = 4 << 20

// write writes the new store. It first writes the chunks and receipts, which it reads from the damaged store once more, and then the
// records of the plan. A store without records has no rows, so a crash in between leaves nothing that counts.
func write(c Config, folder string, p *plan) (err error) {
	if err := c.FS.RemoveAll(folder); err != nil {
		return err
	}
	st, err := c.Open(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	batch := st.DB.NewBatch()
	flush := func(how *pebble.WriteOptions) error {
		err := st.DB.Apply(batch, how)
		batch = st.DB.NewBatch()
		return err
	}
	written := map[uint64]map[uint32]bool{} // the chunks, true if whole
	err = pebblestore.Scan(c.FS, c.Dir, func(e pebblestore.Entry) error {
		if !p.wants(e, written) {
			return nil
		}
		_ = batch.Set(e.Key, e.Value, nil) // a plain batch cannot fail
		if batch.Len() < batchBytes {
			return nil
		}
		return flush(pebble.NoSync)
	}, func(string, string) {})
	if err == nil {
		err = flush(pebble.NoSync)
	}
	if err == nil {
		for _, r := range p.records {
			_ = batch.Set(r.key, r.value, nil)
		}
		err = flush(pebble.Sync)
	}
	if err == nil {
		err = st.DB.Flush()
	}
	return err
}

// wants reports whether the new store gets an entry as it is, and notes the chunks that it has.
func (p *plan) wants(e pebblestore.Entry, written map[uint64]map[uint32]bool) bool {
	if len(e.Key) == 0 || e.Kind != pebble.InternalKeyKindSet && e.Kind != pebble.InternalKeyKindSetWithDelete || p.wiped(e.Key) {
		return false
	}
	if _, _, sink, _, ok := format.ParseReceiptKey(e.Key); ok && e.Key[0] == format.PrefixReceipt { // written once and never changed
		return p.known[sink] // else it would tell a new sink with the number that rows are stored which it does not have
	}
	if e.Key[0] == format.PrefixRecord {
		return p.keepRecords[string(e.Key)]
	}
	if len(e.Key) != format.ChunkKeySize || e.Key[0] != format.PrefixChunk {
		return false
	}
	num, seq := format.ParseChunkKey(e.Key)
	if !p.keep[num] || written[num][seq] {
		return false
	}
	_, _, bad := format.ParseChunk(e.Value)
	if bad != nil && p.chunks[num].found[seq] {
		return false // another copy of it is whole
	}
	if written[num] == nil {
		written[num] = map[uint32]bool{}
	}
	written[num][seq] = bad == nil
	return true
}

// Log logs damage that was set aside.
func Log(log *slog.Logger, d format.Damage) {
	log.Error("stored rows damaged", "sink", d.SinkID, "file", d.FileID, "slice", d.SliceID,
		"first_chunk", d.FirstChunk, "last_chunk", d.LastChunk, "rows", d.Rows, "uncounted", d.Uncounted, "reason", d.Reason, "next", "check the disk; forebay damage list shows the rows")
}
