package buffer

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/trigger"
)

// Checkpoint writes a copy of the local level into a new folder while rows keep flowing. It holds every row whose Append
// was acknowledged before the call and that is not in staging yet, and the state of all sinks, files and slices. Where
// both folders are on one file system most bytes are shared by links.
//
// All writing files are closed for it, with the reason [trigger.Copied], in the same commit, and no other commit is made
// until the copy is complete. Rows that are appended meanwhile wait, and are not in it. So everything in a checkpoint
// is sealed, and one id means the same rows in the copy and in the original.
//
// Open opens the copy as a separate engine. It finishes the files and slices that it found under the old ids, and gives new
// ids to new ones. A file that the original has imported meanwhile is not doubled, since the [driver.Target] knows its id. The
// staged objects of such a file are gone, so the target must look at the id before it opens them, or be a [driver.Counter], which
// is then asked. Staging and the tables are not in the copy. It needs the originals, or copies of them that were made later
// than the checkpoint.
//
// The folder must not exist, and must not be inside of the local level, or of a folder of a Staging or Target that is a [driver.LocalDriver]. With an error there is no copy. With the error of ctx the copy may appear later. The copy is
// complete and durable when Checkpoint returns nil.
func (b *Buffer) Checkpoint(ctx context.Context, dir string) error {
	if err := b.mayCopyTo(dir); err != nil {
		return fmt.Errorf("buffer: checkpoint %s: %w", dir, err)
	}
	dir = filepath.Clean(dir)
	var failure error
	err := b.do(ctx, func(t *txn) {
		for _, s := range b.mu.sinks {
			if s.file != nil {
				t.closeFile(s.file, trigger.Copied)
			}
			for _, f := range s.files {
				if !f.done() && !f.rec.Copied {
					f.rec.Copied = true
					t.touchFile(f)
				}
			}
		}
		t.afterApply = append(t.afterApply, func() { failure = b.copyTo(dir) })
	})
	if err == nil {
		err = failure // was written before the commit ended
	}
	if err != nil {
		return fmt.Errorf("buffer: checkpoint %s: %w", dir, err)
	}
	b.log.Info("checkpoint made", "dir", dir)
	return nil
}

// mayCopyTo refuses a folder inside of a folder of a driver, even if the data directory is there too, because a table that gets the name of the
// copy would take it over, and a drop of the table would delete it. A driver with a single file has no folder. The store refuses its own folder.
func (b *Buffer) mayCopyTo(dir string) error {
	if err := localdisk.Named(dir); err != nil {
		return err
	}
	own := map[string]bool{} // sinks share targets
	drivers := []any{b.opts.Staging, b.opts.Target}
	for _, target := range b.opts.Targets {
		drivers = append(drivers, target)
	}
	b.mu.RLock()
	ids := slices.Collect(maps.Keys(b.mu.sinks))
	b.mu.RUnlock()
	for _, id := range ids {
		if target := b.ownTarget(id); target != nil {
			drivers = append(drivers, target)
		}
	}
	for _, drv := range drivers {
		if local, ok := drv.(driver.LocalDriver); ok {
			folder, _ := local.Needs(0, 0)
			own[folder] = true
		}
	}
	for folder := range own {
		if localdisk.Inside(dir, folder) {
			return fmt.Errorf("the folder is inside of %s, which belongs to the staging or the target: choose a folder outside of it", folder)
		}
	}
	return nil
}

// copyTo runs on the committer.
func (b *Buffer) copyTo(dir string) error {
	return b.store.Opening().Checkpoint(dir, func(partial string) error {
		if err := writeFormat(b.fs, partial, int(b.format.Load())); err != nil {
			return err
		}
		return pebblestore.WriteNote(b.fs, partial, copyFile, "")
	})
}
