package sim

import (
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// opKind is a class of operations of the file system.
type opKind uint8

const (
	opCreate opKind = iota
	opWrite
	opSync
	opRename
	opRemove
	opRead
)

func (k opKind) changes() bool { return k != opRead }

// disk is a crashable file system in memory with faults. It counts the operations that change it.
type disk struct {
	mem *vfs.MemFS

	mu sync.Mutex
	n  int // operations that change the disk, so far
	// cutAt is the operation before which the power goes off; cut is called then, once.
	cutAt int
	cut   func()
	// fault says what happens to an operation; nil: nothing.
	fault func(n int, kind opKind, name string) fault
	// poisoned are files with a failed sync. What was dirty then never reaches the disk, although later syncs report
	// success, as in real kernels. Folders are never poisoned; see [diskFile.sync].
	poisoned map[string]bool
	injected int
}

type fault struct {
	err   error
	delay time.Duration
	half  bool // a failing write writes half of its bytes
}

func newDisk(mem *vfs.MemFS) *disk { return &disk{mem: mem, poisoned: map[string]bool{}} }

// crashed returns the disk that is found after a loss of power now.
func (d *disk) crashed(percent int, rng *rand.Rand) *disk {
	return newDisk(d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
}

// heal ends all faults.
func (d *disk) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.cut = nil, nil
}

// ops returns the number of operations so far.
func (d *disk) ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// cutAfter lets the power go off before the n-th change from now on.
func (d *disk) cutAfter(n int, cut func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutAt, d.cut = d.n+n, cut
}

func (d *disk) setFault(f func(n int, kind opKind, name string) fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// op is called before every operation.
func (d *disk) op(kind opKind, name string) fault {
	d.mu.Lock()
	n := d.n
	if kind.changes() {
		d.n++
	}
	var cut func()
	if kind.changes() && d.cut != nil && n >= d.cutAt {
		cut, d.cut = d.cut, nil
	}
	inject := d.fault
	d.mu.Unlock()
	if cut != nil {
		cut()
	}
	var f fault
	if inject != nil {
		f = inject(n, kind, name)
	}
	if f.delay > 0 {
		time.Sleep(f.delay)
	}
	if f.err != nil {
		d.mu.Lock()
		d.injected++
		d.mu.Unlock()
		f.err = &os.PathError{Op: "simulated", Path: name, Err: f.err}
	}
	return f
}

func (d *disk) file(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, name: name}, nil
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f := d.op(opCreate, name); f.err != nil {
		return nil, f.err
	}
	d.mu.Lock()
	delete(d.poisoned, name)
	d.mu.Unlock()
	f, err := d.mem.Create(name, c)
	return d.file(name, f, err)
}

// renamed keeps the fate of a file with it.
func (d *disk) renamed(old, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.poisoned[name] = d.poisoned[old]
	delete(d.poisoned, old)
}

func (d *disk) Link(old, name string) error {
	if f := d.op(opRename, name); f.err != nil {
		return f.err
	}
	return d.mem.Link(old, name)
}

func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f := d.op(opRead, name); f.err != nil {
		return nil, f.err
	}
	f, err := d.mem.Open(name, opts...)
	return d.file(name, f, err)
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if f := d.op(opCreate, name); f.err != nil {
		return nil, f.err
	}
	f, err := d.mem.OpenReadWrite(name, c, opts...)
	return d.file(name, f, err)
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	if f := d.op(opRead, name); f.err != nil {
		return nil, f.err
	}
	f, err := d.mem.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, name: name, folder: true}, nil
}

func (d *disk) Remove(name string) error {
	if f := d.op(opRemove, name); f.err != nil {
		return f.err
	}
	return d.mem.Remove(name)
}

func (d *disk) RemoveAll(name string) error {
	if f := d.op(opRemove, name); f.err != nil {
		return f.err
	}
	return d.mem.RemoveAll(name)
}

func (d *disk) Rename(old, name string) error {
	if f := d.op(opRename, name); f.err != nil {
		return f.err
	}
	d.renamed(old, name)
	return d.mem.Rename(old, name)
}

func (d *disk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f := d.op(opRename, name); f.err != nil {
		return nil, f.err
	}
	d.renamed(old, name)
	f, err := d.mem.ReuseForWrite(old, name, c)
	return d.file(name, f, err)
}

func (d *disk) MkdirAll(dir string, perm os.FileMode) error {
	if f := d.op(opCreate, dir); f.err != nil {
		return f.err
	}
	return d.mem.MkdirAll(dir, perm)
}

func (d *disk) Lock(name string) (io.Closer, error)             { return d.mem.Lock(name) }
func (d *disk) List(dir string) ([]string, error)               { return d.mem.List(dir) }
func (d *disk) Stat(name string) (vfs.FileInfo, error)          { return d.mem.Stat(name) }
func (d *disk) PathBase(path string) string                     { return d.mem.PathBase(path) }
func (d *disk) PathJoin(elem ...string) string                  { return d.mem.PathJoin(elem...) }
func (d *disk) PathDir(path string) string                      { return d.mem.PathDir(path) }
func (d *disk) GetDiskUsage(path string) (vfs.DiskUsage, error) { return d.mem.GetDiskUsage(path) }
func (d *disk) Unwrap() vfs.FS                                  { return d.mem }

// diskFile is one open file.
type diskFile struct {
	vfs.File
	d      *disk
	name   string
	folder bool
}

func (f *diskFile) Read(p []byte) (int, error) {
	if x := f.d.op(opRead, f.name); x.err != nil {
		return 0, x.err
	}
	return f.File.Read(p)
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	if x := f.d.op(opRead, f.name); x.err != nil {
		return 0, x.err
	}
	return f.File.ReadAt(p, off)
}

func (f *diskFile) Write(p []byte) (int, error) {
	if x := f.d.op(opWrite, f.name); x.err != nil {
		if x.half {
			n, _ := f.File.Write(p[:len(p)/2])
			return n, x.err
		}
		return 0, x.err
	}
	return f.File.Write(p)
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if x := f.d.op(opWrite, f.name); x.err != nil {
		return 0, x.err
	}
	return f.File.WriteAt(p, off)
}

// sync poisons a file when it fails, and never a folder. The bytes of a file are in pages, which the kernel takes for clean after a
// failed write. Names are in the journal of the file system, and a journal has no holes: in ext4 a transaction counts only if all that
// were begun before it are whole, in XFS a record only after those before it. When the journal cannot be written, the file
// system takes no change any more until it is mounted again. So a later sync of a folder fails too, or makes the names durable that
// the failed one left out.
func (f *diskFile) sync(do func() error) error {
	x := f.d.op(opSync, f.name)
	f.d.mu.Lock()
	if x.err != nil && !f.folder {
		f.d.poisoned[f.name] = true
	}
	poisoned := f.d.poisoned[f.name]
	f.d.mu.Unlock()
	if x.err != nil {
		return x.err
	}
	if poisoned {
		return nil
	}
	return do()
}

func (f *diskFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *diskFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *diskFile) SyncTo(length int64) (full bool, err error) {
	err = f.sync(func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// The errors of a failing and of a full disk.
var (
	errIO   error = syscall.EIO
	errFull error = syscall.ENOSPC
)

// isLog reports whether a file is a write-ahead log: its syncs hold no lock of the store, so they may be slow.
func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

func vfsCrashable() *vfs.MemFS { return vfs.NewCrashableMem() }
