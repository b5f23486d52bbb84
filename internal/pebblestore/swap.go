package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// NewFolder is where a salvage writes the new store, inside of the folder of the damaged one.
	NewFolder = "forebay-salvage"
	// swapNote says how far the swap of the stores has come.
	swapNote = "forebay-swap"
	// asidePrefix and a time name the folder that keeps the damaged store.
	asidePrefix = "damaged-"
)

// Aside returns the name of the folder, inside the store's folder, that a damaged store is moved to.
func Aside(at time.Time) string { return asidePrefix + at.UTC().Format("20060102-150405.000000") }

// Swap replaces a damaged store by the one in [NewFolder]. First all old files are moved out, then the new ones in. A note on disk says how
// far that has come, so that [FinishSwap] continues there after a crash.
func Swap(disk vfs.FS, dir, aside string) error {
	if err := SyncDir(disk, disk.PathJoin(dir, NewFolder)); err != nil {
		return err
	}
	if err := WriteNote(disk, dir, swapNote, "out "+aside+"\n"); err != nil {
		return err
	}
	return FinishSwap(disk, dir)
}

// FinishSwap completes a swap that a crash has interrupted. Call it before anything else reads the folder. Without a swap it
// does nothing.
func FinishSwap(disk vfs.FS, dir string) error {
	note := disk.PathJoin(dir, swapNote)
	text, err := ReadNote(disk, note, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	step, aside, _ := strings.Cut(strings.TrimSpace(text), " ")
	fresh := disk.PathJoin(dir, NewFolder)
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
		if err := WriteNote(disk, dir, swapNote, "in "+aside+"\n"); err != nil {
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
	return SyncDir(disk, dir)
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
	return errors.Join(SyncDir(disk, to), SyncDir(disk, from))
}
