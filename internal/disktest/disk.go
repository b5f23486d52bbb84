package disktest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/localdisk"
)

// Env names the disks that tests use: "mem" for disks in memory, "real" for folders of the real file system. Without it [New] returns a
// disk in memory, and [Each] plays on both. The test of internal/realdisk sets it.
const Env = "FOREBAY_DISK"

// Disk is a file system in memory, or a folder of the real one. It takes relative names in both cases.
type Disk struct {
	vfs.FS
	tb    testing.TB
	root  string // of the real one
	usage atomic.Pointer[vfs.DiskUsage]
}

// New returns an empty disk. A killed or cut one comes from [Disk.Killed].
func New(tb testing.TB) *Disk {
	tb.Helper()
	if os.Getenv(Env) == "real" {
		return Real(tb)
	}
	return Mem(tb)
}

// Mem returns an empty disk in memory. A run with real disks only skips the test.
func Mem(tb testing.TB) *Disk {
	tb.Helper()
	if os.Getenv(Env) == "real" {
		tb.Skip("this test is about a disk in memory")
	}
	return &Disk{FS: vfs.NewCrashableMem(), tb: tb}
}

// Real returns an empty folder of the real file system. A run with disks in memory only skips the test.
func Real(tb testing.TB) *Disk {
	tb.Helper()
	if os.Getenv(Env) == "mem" {
		tb.Skip("this test is about a real disk")
	}
	return &Disk{FS: localdisk.Real(), tb: tb, root: tb.TempDir()}
}

// Each plays a test on a disk of each kind.
func Each(t *testing.T, play func(t *testing.T, disk func(testing.TB) *Disk)) {
	t.Helper()
	only := os.Getenv(Env)
	if only != "real" {
		t.Run("mem", func(t *testing.T) { play(t, Mem) })
	}
	if only != "mem" {
		t.Run("real", func(t *testing.T) { play(t, Real) })
	}
}

// IsReal reports whether a disk is a folder of the real file system.
func (d *Disk) IsReal() bool { return d.root != "" }

// Path returns the name under which the operating system knows a file.
func (d *Disk) Path(name string) string {
	if d.root == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.root, name)
}

// Killed returns the disk as a process that is killed now leaves it.
func (d *Disk) Killed() *Disk {
	return d.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// Cut returns the disk as a loss of power leaves it. On the real file system it is as [Disk.Killed] leaves it.
func (d *Disk) Cut(how vfs.CrashCloneCfg) *Disk {
	d.tb.Helper()
	if mem, ok := d.FS.(*vfs.MemFS); ok {
		return &Disk{FS: mem.CrashClone(how), tb: d.tb}
	}
	after := Real(d.tb)
	if err := Copy(d.root, after.root); err != nil {
		d.tb.Fatal(err)
	}
	return after
}

// Read returns the content of a file.
func (d *Disk) Read(name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// Rot flips a bit of a file in place, as a disk does. Whoever has the file open sees it.
func (d *Disk) Rot(name string, at int) {
	d.tb.Helper()
	f, err := d.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		d.tb.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], int64(at))
	if err == nil {
		b[0] ^= 4
		_, err = f.WriteAt(b[:], int64(at))
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		d.tb.Fatal(err)
	}
}

// SetUsage sets the usage that the disk reports.
func (d *Disk) SetUsage(usage vfs.DiskUsage) { d.usage.Store(&usage) }

// Change replaces the content of a file durably by what change makes of it.
func (d *Disk) Change(name string, change func([]byte) []byte) error {
	data, err := d.Read(name)
	if err != nil {
		return err
	}
	data = change(bytes.Clone(data))
	f, err := d.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// Unwrap implements [vfs.FS], for packages that ask whether they work on the real file system.
func (d *Disk) Unwrap() vfs.FS {
	if d.root != "" {
		return d.FS
	}
	return nil
}

// Create implements [vfs.FS].
func (d *Disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.FS.Create(d.Path(name), c)
}

// Link implements [vfs.FS].
func (d *Disk) Link(old, name string) error { return d.FS.Link(d.Path(old), d.Path(name)) }

// Open implements [vfs.FS].
func (d *Disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.FS.Open(d.Path(name), opts...)
}

// OpenReadWrite implements [vfs.FS].
func (d *Disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.FS.OpenReadWrite(d.Path(name), c, opts...)
}

// OpenDir implements [vfs.FS].
func (d *Disk) OpenDir(name string) (vfs.File, error) { return d.FS.OpenDir(d.Path(name)) }

// Remove implements [vfs.FS].
func (d *Disk) Remove(name string) error { return d.FS.Remove(d.Path(name)) }

// RemoveAll implements [vfs.FS].
func (d *Disk) RemoveAll(name string) error { return d.FS.RemoveAll(d.Path(name)) }

// Rename implements [vfs.FS].
func (d *Disk) Rename(old, name string) error { return d.FS.Rename(d.Path(old), d.Path(name)) }

// ReuseForWrite implements [vfs.FS].
func (d *Disk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.FS.ReuseForWrite(d.Path(old), d.Path(name), c)
}

// MkdirAll implements [vfs.FS].
func (d *Disk) MkdirAll(dir string, perm os.FileMode) error { return d.FS.MkdirAll(d.Path(dir), perm) }

// Lock implements [vfs.FS].
func (d *Disk) Lock(name string) (io.Closer, error) { return d.FS.Lock(d.Path(name)) }

// List implements [vfs.FS].
func (d *Disk) List(dir string) ([]string, error) { return d.FS.List(d.Path(dir)) }

// Stat implements [vfs.FS].
func (d *Disk) Stat(name string) (vfs.FileInfo, error) { return d.FS.Stat(d.Path(name)) }

// GetDiskUsage implements [vfs.FS].
func (d *Disk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if usage := d.usage.Load(); usage != nil {
		return *usage, nil
	}
	return d.FS.GetDiskUsage(d.Path(path))
}
