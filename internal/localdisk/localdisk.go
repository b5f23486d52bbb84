// Package localdisk puts another disk below an engine, for the tests and benchmarks of this module. The disk crashes, fails or
// is slow.
//
// Options of exported packages embed [Disk] under an unexported name, so they have no identifier for it. The design that lost
// is a method that takes a type of this package. Every user would see it, but no code outside the module could call it.
package localdisk

import "github.com/cockroachdb/pebble/v2/vfs"

// Disk is the disk of the options that embed it. The zero value is the real disk.
type Disk struct{ fs vfs.FS }

func (d *Disk) place() *vfs.FS { return &d.fs }

// holder is a pointer to options that embed a [Disk].
type holder[T any] interface {
	*T
	place() *vfs.FS
}

// On returns the options with another disk. Nil is the real one.
func On[T any, P holder[T]](options T, disk vfs.FS) T {
	*P(&options).place() = disk
	return options
}

// Of returns the disk of the options.
func Of[T any, P holder[T]](options T) vfs.FS {
	if disk := *P(&options).place(); disk != nil {
		return disk
	}
	return Real()
}
