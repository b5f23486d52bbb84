package buffer

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Two small files are stored next to the files of the store.
//
// formatFile holds the format version as decimal text. It is read before anything else, so that the data of a newer
// version is refused before the store replays its log or writes a byte. The same version stands in the store, under
// format.KeyFormat.
//
// The file is always written first, when a folder is created and when it is upgraded. So a crash leaves
//
//	file     store     meaning                          reaction
//	1        1         version 1                        upgrade to 2, unless Tuning.KeepFormat
//	n        below n   an upgrade that was cut short    complete it
//	n        n         version n                        –
//	below n  n         the file was replaced            refuse
//	absent   any       the file was lost                write the version of the store into it
//
// copyFile marks a checkpoint that was not opened yet. See recovery.adopt. It holds unsealed in a snapshot, which [Restore] has to
// make a local level of first.
const (
	formatFile = "forebay-format"
	copyFile   = "forebay-copy"
	unsealed   = "snapshot"
)

// FormatError says that a data directory has a format version that this version of the library does not know, or two versions
// that cannot stand together. Nothing was changed.
type FormatError struct {
	// Dir is the directory, Found the version in it, Known the versions that this library reads and writes.
	Dir          string
	Found, Known string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("buffer: %s has format %q, this version of the library reads the formats %s: use the version that wrote it",
		e.Dir, e.Found, e.Known)
}

// checkFormat reads the version in the format file; 0 if there is none. It refuses a version above newest, without touching
// anything.
func checkFormat(disk vfs.FS, dir string, newest int) (version int, err error) {
	text, err := pebblestore.ReadNote(disk, disk.PathJoin(dir, formatFile), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		if file := fileAbove(disk, dir); file != "" {
			return 0, fmt.Errorf("buffer: open %s: %s is a file, not a folder: choose another folder: %w", dir, file, err)
		}
		return 0, fmt.Errorf("buffer: open %s: %w", dir, err)
	}
	return knownFormat(dir, strings.TrimSpace(text), newest)
}

// fileAbove returns the part of a path that is no folder; "" if there is none.
func fileAbove(disk vfs.FS, path string) string {
	for {
		if info, err := disk.Stat(path); err == nil {
			if info.IsDir() {
				return ""
			}
			return path
		}
		above := disk.PathDir(path)
		if above == path {
			return ""
		}
		path = above
	}
}

func knownFormat(dir, text string, newest int) (int, error) {
	for version := format.Oldest; version <= newest; version++ {
		if text == strconv.Itoa(version) {
			return version, nil
		}
	}
	known := strconv.Itoa(format.Oldest)
	if newest > format.Oldest {
		known += " to " + strconv.Itoa(newest)
	}
	return 0, &FormatError{Dir: dir, Found: text, Known: known}
}

func writeFormat(disk vfs.FS, dir string, version int) error {
	return pebblestore.WriteNote(disk, dir, formatFile, strconv.Itoa(version)+"\n")
}

// refuseSnapshot keeps a snapshot from being opened. Its files are still written in the original, so their ids would stand for
// different rows.
func refuseSnapshot(disk vfs.FS, dir string) error {
	switch text, err := pebblestore.ReadNote(disk, disk.PathJoin(dir, copyFile), 64); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case text == unsealed:
		return errors.New("the folder is a snapshot: Restore makes a local level of it")
	}
	return nil
}

// beginFormat writes the format file of a folder that has none. A folder with a store has lost it, and gets the version of the
// store. That of a damaged store is for a salvage to choose.
func (b *Buffer) beginFormat(disk vfs.FS, dir string) error {
	version, err := checkFormat(disk, dir, format.Newest)
	if version != 0 || err != nil {
		return err
	}
	version = format.Typed
	if b.opts.KeepFormat {
		version = format.Oldest
	}
	o, err := pebblestore.OpenReadOnly(pebblestore.Config{Dir: dir, FS: disk, Log: b.log, Patience: patience})
	switch {
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		b.created = true
	case err != nil:
		return err
	default:
		stored, err := pebblestore.Get(o.DB, []byte(format.KeyFormat))
		if err := errors.Join(err, o.Close()); err != nil {
			return err
		}
		if stored != nil { // else a crash came before the first records
			if version, err = knownFormat(dir, string(stored), format.Newest); err != nil {
				return err
			}
			b.log.Warn("format file written again", "dir", dir, "format", version, "next", "find out what deletes files in the data directory")
		}
	}
	return writeFormat(disk, dir, version)
}

// upgradeFormat makes the versions in the file and in the store agree, and upgrades both to format.Typed at least.
func (r *recovery) upgradeFormat(b *Buffer, file int) error {
	if r.version > file {
		return &FormatError{
			Dir: b.dir, Found: fmt.Sprintf("%d in %s, %d in the store", file, formatFile, r.version), Known: strconv.Itoa(format.Newest),
		}
	}
	want := file
	if !b.opts.KeepFormat {
		want = max(file, format.Typed)
	}
	if want > file {
		if err := writeFormat(b.fs, b.dir, want); err != nil {
			return err
		}
	}
	if want > r.version {
		batch := r.db.NewBatch()
		_ = batch.Set([]byte(format.KeyFormat), []byte(strconv.Itoa(want)), nil) // a plain batch cannot fail
		if err := r.write(batch); err != nil {
			return err
		}
		b.log.Info("data directory upgraded", "dir", b.dir, "from", r.version, "to", want, "next", "do not return to an earlier release")
		r.version = want
	}
	return nil
}

// upgradeFor prepares the upgrade that a definition needs. The file is written here, the store in the batch of the definition.
func (b *Buffer) upgradeFor(need int) error {
	if int(b.format.Load()) >= need {
		return nil
	}
	b.upgrading <- struct{}{}
	defer func() { <-b.upgrading }()
	switch f := b.failure(); {
	case int(b.format.Load()) >= need:
		return nil
	case b.store.Now().Phase >= pebblestore.PhaseClosing:
		return ErrClosed
	case f != nil:
		return f
	}
	err := b.checkUpgradeRoom()
	if err == nil {
		err = writeFormat(b.fs, b.dir, need)
	}
	if err != nil {
		return fmt.Errorf("buffer: upgrade %s to format %d: %w", b.dir, need, err)
	}
	return nil
}

// upgradeRoom is the free room without which a definition upgrades nothing. On a full volume the file could get the new version, and
// the store not. Open needs more before it upgrades. See [RoomError].
const upgradeRoom = 1 << 20

func (b *Buffer) checkUpgradeRoom() error {
	volume, err := b.fs.GetDiskUsage(b.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if free := int64(min(volume.AvailBytes, math.MaxInt64)); err == nil && free < upgradeRoom {
		err = &RoomError{
			Dir: b.dir, Free: free, Needed: upgradeRoom, For: "to upgrade its format",
			err: fmt.Errorf("the volume of %s is too small: %d bytes are free, an upgrade needs %d", b.dir, free, upgradeRoom),
		}
	}
	return err
}

// upgrade adds to the batch the version that a definition needs.
func (t *txn) upgrade(need int) {
	b := t.b
	if from := int(b.format.Load()); need > from {
		t.addToBatch(func(batch *pebble.Batch) { _ = batch.Set([]byte(format.KeyFormat), []byte(strconv.Itoa(need)), nil) })
		// First, because a checkpoint in the same commit writes the version into its format file.
		t.afterApply = slices.Insert(t.afterApply, 0, func() { b.format.Store(int32(need)) })
		if b.created {
			return
		}
		t.onDurable(func() {
			b.log.Info("data directory upgraded for a definition", "dir", b.dir, "from", from, "to", need, "next", "do not return to an earlier release")
		})
	}
}

// adopt turns a checkpoint into the data of a separate engine, when it is first opened. Everything that the
// checkpoint holds was sealed when it was made, so its ids stand for the same rows here and in the original and are
// kept. New files and slices have ids with a new instance, so their ids cannot equal any id that the original gives
// out.
//
// A crash on the way repeats it, which is harmless, because the records then have the name that was given first.
func (r *recovery) adopt(disk vfs.FS, dir string) error {
	marker := disk.PathJoin(dir, copyFile)
	switch _, err := disk.Stat(marker); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	batch := r.db.NewBatch()
	for _, f := range r.files {
		if f.rec.Instance == "" {
			f.rec.Instance = r.instance
			_ = batch.Set(format.FileKey(f.num), format.Encode(&f.rec), nil) // a plain batch cannot fail
		}
	}
	for _, sl := range r.slices {
		if sl.rec.Instance == "" {
			sl.rec.Instance = r.instance
			_ = batch.Set(format.SliceKey(sl.num), format.Encode(&sl.rec), nil)
		}
	}
	r.instance = newInstance()
	_ = batch.Set([]byte(format.KeyInstance), []byte(r.instance), nil)
	if err := r.write(batch); err != nil {
		return err
	}
	if err := disk.Remove(marker); err != nil {
		return err
	}
	return pebblestore.SyncDir(disk, dir)
}

func newInstance() string {
	var name [6]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}
