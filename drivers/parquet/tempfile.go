package parquet

import (
	"context"
	"errors"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/driverkit/parts"
)

// tempFile is a temporary file that is open only during a write, because a file of rows may have more days than a process may have open files.
type tempFile struct {
	ctx   context.Context
	store *parts.Store
	id    string
	temp  string // "" before the first write
	file  parts.File
}

func (t *tempFile) Write(p []byte) (n int, err error) {
	switch {
	case t.file != nil:
	case t.temp == "":
		t.temp, t.file, err = t.store.CreateTemp(t.id)
	default:
		t.file, err = t.store.FS.Append(t.temp)
	}
	if err != nil {
		t.file = nil
		return 0, err
	}
	return ctxio.Writer(t.ctx, t.file).Write(p)
}

// close closes the file. durable syncs it first.
func (t *tempFile) close(durable bool) (err error) {
	if t.file == nil {
		return nil
	}
	if durable {
		err = t.file.Sync()
	}
	err = errors.Join(err, t.file.Close())
	t.file = nil
	return err
}

// abandon removes the written file.
func (t *tempFile) abandon() {
	_ = t.close(false)
	if t.temp != "" {
		_ = t.store.FS.Remove(t.temp) // if it stays, the sweep removes it
	}
}
