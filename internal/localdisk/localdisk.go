// Package localdisk names the disk below an engine, for the tests and benchmarks of this module: one that crashes, fails or
// is slow. No package outside of the module can make a [Disk].
package localdisk

import "github.com/cockroachdb/pebble/v2/vfs"

// Disk stands in for the real disk. The zero value is the real disk.
type Disk struct{ fs vfs.FS }

// Of returns fs as a Disk.
func Of(fs vfs.FS) Disk { return Disk{fs} }

// FS returns the file system.
func (d Disk) FS() vfs.FS {
	if d.fs == nil {
		return vfs.Default
	}
	return d.fs
}
