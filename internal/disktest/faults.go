package disktest

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Wrap is [errorfs.Wrap] that sees all writes. That of errorfs does not see the writes to a log that is written over an earlier one.
func Wrap(disk vfs.FS, faults errorfs.Injector) vfs.FS {
	return &faulty{FS: errorfs.Wrap(disk, faults), disk: disk, faults: faults}
}

type faulty struct {
	*errorfs.FS
	disk   vfs.FS
	faults errorfs.Injector
}

// ReuseForWrite implements [vfs.FS].
func (f *faulty) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.faults.MaybeError(errorfs.Op{Kind: errorfs.OpReuseForWrite, Path: old}); err != nil {
		return nil, err
	}
	if err := f.disk.Rename(old, name); err != nil {
		return nil, err
	}
	return f.FS.OpenReadWrite(name, c)
}
