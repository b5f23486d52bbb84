package buffer

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Two small files stand beside those of the store.
//
// formatFile holds the format version as decimal text. It is read before anything else, so that the data of a newer
// version is refused before the store replays its log or writes a byte. It is written before the store is created. The
// same version stands in the store, under format.KeyFormat.
//
// copyFile marks a checkpoint that was not opened yet: see recovery.adopt.
const (
	formatFile = "forebay-format"
	copyFile   = "forebay-copy"
)

// FormatError says that a data directory was written by a version of the library that this one does not know. Nothing
// was changed.
type FormatError struct {
	// Dir is the directory, Found the version in it, Known the one that this library reads and writes.
	Dir          string
	Found, Known string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("buffer: %s has format %q, this version of the library reads format %q: use the version that wrote it",
		e.Dir, e.Found, e.Known)
}

// checkFormat refuses a folder of another version, without touching it. It returns whether the version is there.
func checkFormat(disk vfs.FS, dir string) (found bool, err error) {
	text, err := pebblestore.ReadNote(disk, disk.PathJoin(dir, formatFile), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("buffer: open %s: %w", dir, err)
	}
	return true, knownFormat(dir, strings.TrimSpace(text))
}

func knownFormat(dir, version string) error {
	if known := strconv.Itoa(format.Version); version != known {
		return &FormatError{Dir: dir, Found: version, Known: known}
	}
	return nil
}

func writeFormat(disk vfs.FS, dir string) error {
	return pebblestore.WriteNote(disk, dir, formatFile, strconv.Itoa(format.Version)+"\n")
}

// adopt makes a checkpoint the data of an engine of its own, when it is opened first. Everything that the checkpoint
// holds was sealed when it was made, so its ids stand for the same rows here and in the original and are kept. What
// comes from now on has ids with a new instance, and so cannot meet those that the original gives out.
//
// A crash on the way repeats it, which is harmless: the records then have the name that was given first.
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
	if err := r.db.Apply(batch, pebble.Sync); err != nil {
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
