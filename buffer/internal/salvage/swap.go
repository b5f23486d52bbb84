package salvage

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/pebblestore"
)

// maxNote bounds the text of a note, in bytes.
const maxNote = 64 << 20

// swapStores replaces the damaged store with the new one. A note on disk says how far it has come, so that
// [FinishSwap] goes on there after a crash: first everything old goes out, then everything new comes in.
func swapStores(disk vfs.FS, dir, aside string) error {
	if err := pebblestore.SyncDir(disk, disk.PathJoin(dir, newFolder)); err != nil {
		return err
	}
	if err := pebblestore.WriteNote(disk, dir, swapNote, "out "+aside+"\n"); err != nil {
		return err
	}
	return FinishSwap(disk, dir)
}

// FinishSwap completes a swap that a crash has interrupted. Call it before anything else reads the folder. Without a swap it
// does nothing.
func FinishSwap(disk vfs.FS, dir string) error {
	note := disk.PathJoin(dir, swapNote)
	text, err := pebblestore.ReadNote(disk, note, maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	step, aside, _ := strings.Cut(strings.TrimSpace(text), " ")
	fresh := disk.PathJoin(dir, newFolder)
	if step == "out" {
		out := disk.PathJoin(dir, aside)
		if err := disk.MkdirAll(out, 0o700); err != nil {
			return err
		}
		if err := moveStore(disk, dir, out); err != nil {
			return err
		}
		if err := ForgetClosed(disk, dir); err != nil {
			return err
		}
		if err := pebblestore.WriteNote(disk, dir, swapNote, "in "+aside+"\n"); err != nil {
			return err
		}
	} else if step != "in" {
		return fmt.Errorf("%s is damaged: when %s holds a store, move its files one folder up, and remove the note", note, fresh)
	}
	if _, err := disk.Stat(fresh); err == nil {
		if err := moveStore(disk, fresh, dir); err != nil {
			return err
		}
		if err := disk.RemoveAll(fresh); err != nil {
			return err
		}
	}
	if err := disk.Remove(note); err != nil {
		return err
	}
	return pebblestore.SyncDir(disk, dir)
}

// moveStore moves the files of a store.
func moveStore(disk vfs.FS, from, to string) error {
	names, err := disk.List(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "LOCK" || strings.HasPrefix(name, "forebay-") || strings.HasPrefix(name, asidePrefix) {
			continue
		}
		if err := disk.Rename(disk.PathJoin(from, name), disk.PathJoin(to, name)); err != nil {
			return err
		}
	}
	return errors.Join(pebblestore.SyncDir(disk, to), pebblestore.SyncDir(disk, from))
}
