package buffer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Restore rebuilds the local level of another machine in a new folder, from a checkpoint of it and the later batches of its [Changelog]. checkpoint
// is a folder of [Buffer.Snapshot], or one of [Buffer.Checkpoint] that was not opened. It is only read. Without one ("") the batches begin with
// number 1. Batches that the checkpoint has are skipped. A batch that is missing is an error, and so is an error among the batches.
//
// The original must be fenced before. It must have no chance to acknowledge a batch that is not among these, or to upload
// and import because of one. Then [Open] opens the folder. It finishes the existing slices and files under the ids of the original,
// which staging and target know, and gives new ids to later ones. With Options.Changelog it continues with the log of the original.
//
// With an error there is no folder.
func Restore(dir, checkpoint string, batches iter.Seq2[LogBatch, error], t Tuning) error {
	return restore(dir, checkpoint, batches, t, false)
}

// RestoreIncomplete is [Restore] for a log that has lost the batches after the last one, although rows in them were acknowledged and the original
// continued because of them. Rows that only they had are gone. For everything else the buffer first looks at the work of the original. A slice that
// is in staging counts with the rows that it has there, and a file is in its table if the target counts all of its rows ([driver.Counter]), or some
// while its slices are gone from staging. A slice that is not in staging gets an id that no other rows can have.
func RestoreIncomplete(dir, checkpoint string, batches iter.Seq2[LogBatch, error], t Tuning) error {
	return restore(dir, checkpoint, batches, t, true)
}

func restore(dir, checkpoint string, batches iter.Seq2[LogBatch, error], t Tuning, incomplete bool) error {
	if err := localdisk.Named(dir); err != nil {
		return fmt.Errorf("buffer: restore: %w", err)
	}
	dir = filepath.Clean(dir)
	opts := Options{Tuning: t.WithDefaults(), Logger: slog.New(slog.DiscardHandler)}
	disk := localdisk.Of(opts)
	if err := pebblestore.MakeFolder(disk, dir, func(partial string) error {
		if err := disk.MkdirAll(partial, 0o700); err != nil {
			return err
		}
		if checkpoint != "" {
			if err := copyCheckpoint(disk, checkpoint, partial); err != nil {
				return fmt.Errorf("checkpoint %s: %w", checkpoint, err)
			}
		}
		version, err := replayInto(disk, partial, opts, batches, incomplete)
		if err != nil {
			return err
		}
		if err := writeFormat(disk, partial, version); err != nil {
			return err
		}
		return pebblestore.WriteNote(disk, partial, copyFile, "")
	}); err != nil {
		return fmt.Errorf("buffer: restore %s: %w", dir, err)
	}
	return nil
}

// copyCheckpoint copies the files of a checkpoint, into a folder that exists. Tables are never changed, so links will do.
func copyCheckpoint(disk vfs.FS, from, to string) error {
	switch version, err := checkFormat(disk, from, format.Newest); {
	case err != nil:
		return err
	case version == 0:
		return fmt.Errorf("the folder holds no local level: %w", fs.ErrNotExist)
	}
	names, err := disk.List(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		place := vfs.Copy
		switch {
		case name == "LOCK": // pebble's
			continue
		case strings.HasSuffix(name, ".sst"):
			place = vfs.LinkOrCopy
		}
		if err := place(disk, disk.PathJoin(from, name), disk.PathJoin(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// replayInto applies batches to the store of a folder, and returns the version of its format. incomplete means that batches after them are lost.
func replayInto(disk vfs.FS, dir string, opts Options, batches iter.Seq2[LogBatch, error], incomplete bool) (version int, err error) {
	c := databaseConfig(dir, opts)
	tune := c.Tune
	c.Tune = func(o *pebble.Options) {
		tune(o)
		o.DisableWAL = true // after a crash the folder is made again
	}
	o, err := pebblestore.Open(c)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := o.Close(); err == nil {
			err = e
		}
	}()
	r, err := newReplay(o.DB, disk, dir)
	if err != nil {
		return 0, err
	}
	for batch, err := range batches {
		if err == nil {
			err = r.apply(batch)
		}
		if err != nil {
			return 0, err
		}
	}
	if incomplete {
		if err := distrust(o.DB); err != nil {
			return 0, err
		}
	}
	if err := o.DB.Flush(); err != nil {
		return 0, err
	}
	stored, err := pebblestore.Get(o.DB, []byte(format.KeyFormat))
	if err != nil {
		return 0, err
	}
	return knownFormat(dir, string(stored), format.Newest)
}

// distrust marks all files and slices that wait as salvaged, because their records may be older than the last external call.
func distrust(db *pebble.DB) error {
	batch := db.NewBatch()
	if err := eachRecord(db, format.PrefixFile, func(key, value []byte) error {
		var f format.File
		if err := format.Decode(value, &f); err != nil {
			return pebblestore.Damaged("file record %x: %w", key, err)
		}
		if !f.Done() {
			f.Copied, f.Salvaged = true, true
			_ = batch.Set(format.FileKey(binary.BigEndian.Uint64(key)), format.Encode(&f), nil) // a plain batch cannot fail
		}
		return nil
	}); err != nil {
		return err
	}
	if err := eachRecord(db, format.PrefixSlice, func(key, value []byte) error {
		var sl format.Slice
		if err := format.Decode(value, &sl); err != nil {
			return pebblestore.Damaged("slice record %x: %w", key, err)
		}
		if sl.State == format.SliceWriting || sl.State == format.SliceUploading {
			sl.Salvaged = true
			_ = batch.Set(format.SliceKey(binary.BigEndian.Uint64(key)), format.Encode(&sl), nil)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := eachRecord(db, format.PrefixArrival, func(key, value []byte) error {
		var a format.ArrivingFile
		if err := format.Decode(value, &a); err != nil {
			return pebblestore.Damaged("record of the arriving file %x: %w", key, err)
		}
		a.File.Salvaged = true
		_ = batch.Set(format.ArrivalKey(binary.BigEndian.Uint64(key)), format.Encode(&a), nil)
		return nil
	}); err != nil {
		return err
	}
	return db.Apply(batch, pebble.NoSync)
}

// replay applies the batches of a changelog to a store.
type replay struct {
	db   *pebble.DB
	disk vfs.FS
	dir  string
	at   LogPosition // of the store. Only the number is kept up.
	// foreign is set when the store has changes from before its changelog, or from when it was open without. No batch follows them.
	foreign bool
}

func newReplay(db *pebble.DB, disk vfs.FS, dir string) (*replay, error) {
	at, err := logPosition(db)
	if err != nil {
		return nil, err
	}
	stored, err := pebblestore.Get(db, []byte(format.KeyFormat))
	return &replay{db, disk, dir, at, at.Number == 0 && stored != nil}, err
}

// apply adds the next batch. It is durable after sync. One that the store has already is passed over.
func (r *replay) apply(b LogBatch) error {
	switch {
	case r.foreign:
		return errors.New("the local level has changes that are not in the changelog, whose batches cannot follow")
	case b.Number <= r.at.Number:
		return nil
	case b.Number != r.at.Number+1:
		return fmt.Errorf("batch %d of the changelog follows batch %d: batches are missing", b.Number, r.at.Number)
	}
	version, err := checkBatch(b)
	if err != nil {
		return fmt.Errorf("batch %d of the changelog: %w", b.Number, err)
	}
	if version != "" { // the file is always written first
		upgraded, err := knownFormat(r.dir, version, format.Newest)
		if err != nil {
			return err
		}
		if err := writeFormat(r.disk, r.dir, upgraded); err != nil {
			return err
		}
	}
	batch := r.db.NewBatch()
	if err := batch.SetRepr(bytes.Clone(b.Data)); err != nil {
		return err
	}
	if err := r.db.Apply(batch, pebble.NoSync); err != nil {
		return err
	}
	r.at.Number++
	return batch.Close()
}

// sync makes the batches durable.
func (r *replay) sync() error { return r.db.LogData(nil, pebble.Sync) }

// checkBatch refuses what this package has not written, and returns the version of the format that a batch sets, if it does.
func checkBatch(b LogBatch) (version string, err error) {
	header, ok := batchrepr.ReadHeader(b.Data)
	if !ok {
		return "", fmt.Errorf("%d bytes are no batch", len(b.Data))
	}
	var number uint64
	var count uint32
	for ops := batchrepr.Read(b.Data); ; count++ {
		kind, key, value, ok, err := ops.Next()
		if err != nil {
			return "", fmt.Errorf("operation %d cannot be read: %v", count, err) //nolint:errorlint // the store is not damaged
		}
		if !ok {
			break
		}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindRangeDelete:
		default:
			return "", fmt.Errorf("operation %s is unknown", kind)
		}
		switch string(key) {
		case format.KeyLog:
			number, _, _ = format.ParseLogPosition(value)
		case format.KeyFormat:
			version = string(value)
		}
	}
	if count != header.Count || number != b.Number {
		return "", fmt.Errorf("it has %d of %d operations, and says that it is batch %d", count, header.Count, number)
	}
	return version, nil
}
