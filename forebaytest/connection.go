package forebaytest

import (
	"context"
	"errors"
	"io"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
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

// Put implements [driver.Staging].
func (c *connection) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Put(ctx, obj, src) })
}

// Open implements [driver.Staging].
func (c *connection) Open(ctx context.Context, obj driver.Object) (rc io.ReadCloser, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		rc, err = c.memory.Open(ctx, obj)
		return err
	})
	return rc, err
}

// Delete implements [driver.Staging].
func (c *connection) Delete(ctx context.Context, objs ...driver.Object) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Delete(ctx, objs...) })
}

// Ensure implements [driver.Target].
func (c *connection) Ensure(ctx context.Context, t driver.Table) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Ensure(ctx, t) })
}

// Import implements [driver.Target].
func (c *connection) Import(ctx context.Context, f *driver.File) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Import(ctx, f) })
}

// CountFile implements [driver.Counter].
func (c *connection) CountFile(ctx context.Context, t driver.Table, fileID string) (n int64, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		n, err = c.memory.CountFile(ctx, t, fileID)
		return err
	})
	return n, err
}

// Extend implements [driver.Extender].
func (c *connection) Extend(ctx context.Context, t driver.Table) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Extend(ctx, t) })
}

// Uncreate implements [driver.Uncreator].
func (c *connection) Uncreate(ctx context.Context, tableID, creation string) error {
	return c.call(ctx, func(ctx context.Context) error { return c.memory.Uncreate(ctx, tableID, creation) })
}

// Void implements [driver.Voider].
func (c *connection) Void(ctx context.Context, t driver.Table, fileID string) (imported bool, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		imported, err = c.memory.Void(ctx, t, fileID)
		return err
	})
	return imported, err
}

// TakenAway implements [driver.Taker].
func (c *connection) TakenAway(ctx context.Context, t driver.Table, fileID string) (away bool, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		away, err = c.memory.TakenAway(ctx, t, fileID)
		return err
	})
	return away, err
}
