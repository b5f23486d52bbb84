package catalog

import (
	"context"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// OpenStoreOn is OpenStore on another disk.
func OpenStoreOn(disk vfs.FS, dir string) (Store, error) {
	return openStore(dir, slog.New(slog.DiscardHandler), disk)
}

// OpenStoreLogging is OpenStoreOn with a log.
func OpenStoreLogging(disk vfs.FS, dir string, log *slog.Logger) (Store, error) {
	return openStore(dir, log, disk)
}

// Wait returns a task when it has ended, also one that has failed.
func (c *Catalog) Wait(ctx context.Context, id string) (Task, error) { return c.tasks.wait(ctx, id) }

// LockSource takes the lock under which a node changes a source and follows the changes of other nodes.
func (c *Catalog) LockSource(ctx context.Context, source string) (unlock func(), err error) {
	return c.locks.Lock(ctx, source, "")
}
