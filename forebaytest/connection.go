package forebaytest

import (
	"context"
	"errors"
	"io"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// connection is how one process reaches the drivers. Nothing gets through after the process is dead.
type connection struct {
	memory  *buffertest.Memory
	process *process
}

var errDead = errors.New("forebaytest: the process has crashed")

func (c *connection) call(ctx context.Context, do func(context.Context) error) error {
	if c.process.dead.Load() {
		return errDead
	}
	return do(context.WithValue(ctx, lostKey{}, new(lost)))
}

// Put implements [buffer.Staging].
func (c *connection) Put(ctx context.Context, obj buffer.Object, src buffer.Content) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Put(ctx, obj, src) })
}

// Open implements [buffer.Staging].
func (c *connection) Open(ctx context.Context, obj buffer.Object) (rc io.ReadCloser, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		rc, err = c.memory.Open(ctx, obj)
		return err
	})
	return rc, err
}

// Delete implements [buffer.Staging].
func (c *connection) Delete(ctx context.Context, objs ...buffer.Object) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Delete(ctx, objs...) })
}

// Ensure implements [buffer.Target].
func (c *connection) Ensure(ctx context.Context, t buffer.Table) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Ensure(ctx, t) })
}

// Import implements [buffer.Target].
func (c *connection) Import(ctx context.Context, f *buffer.File) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Import(ctx, f) })
}

// CountFile implements [buffer.Counter].
func (c *connection) CountFile(ctx context.Context, t buffer.Table, fileID string) (n int64, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		n, err = c.memory.CountFile(ctx, t, fileID)
		return err
	})
	return n, err
}

// Extend implements [buffer.Extender].
func (c *connection) Extend(ctx context.Context, t buffer.Table) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Extend(ctx, t) })
}

// Uncreate implements [buffer.Uncreator].
func (c *connection) Uncreate(ctx context.Context, tableID, creation string) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Uncreate(ctx, tableID, creation) })
}

// Void implements [buffer.Voider].
func (c *connection) Void(ctx context.Context, t buffer.Table, fileID string) (imported bool, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		imported, err = c.memory.Void(ctx, t, fileID)
		return err
	})
	return imported, err
}

// TakenAway implements [buffer.Taker].
func (c *connection) TakenAway(ctx context.Context, t buffer.Table, fileID string) (away bool, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		away, err = c.memory.TakenAway(ctx, t, fileID)
		return err
	})
	return away, err
}
