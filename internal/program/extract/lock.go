package extract

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A runLock keeps other runs away from the files of this one. It is a file next to them, which stays.
type runLock struct{ held []io.Closer }

// lock locks a file or folder that the run writes. The lock ends with the process at the latest.
func (l *runLock) lock(path, lockFile string) error {
	c, err := vfs.Default.Lock(lockFile)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return usageError{fmt.Errorf("state: %w", err)}
	}
	if err != nil {
		return usageError{fmt.Errorf("another run uses %s (%w): wait until it has ended, or give this run other files", path, err)}
	}
	l.held = append(l.held, c)
	return nil
}

func (l *runLock) Close() error {
	var errs []error
	for _, c := range l.held {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
