package sim

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/pebblestore"
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
	// cutAt is the operation before which the power goes off. cut is called then, once.
	cutAt int
	cut   func()
	// fault says what happens to an operation, nil for nothing.
	fault func(n int, kind opKind, name string) fault
	// poisoned are files with a failed sync. What was dirty then never reaches the disk, although later syncs report
	// success, as in real kernels.
	poisoned map[string]bool
	// lost are names that a failed sync of their folder covered, see [disk.lose].
	lost     map[string]bool
	dead     bool // nothing changes from then on
	injected int
}

type fault struct {
	err   error
	delay time.Duration
	half  bool // a failing write writes half of its bytes
}

func newDisk(mem *vfs.MemFS) *disk {
	return &disk{mem: mem, poisoned: map[string]bool{}, lost: map[string]bool{}}
}

// crashed returns the disk that is found after a loss of power now.
func (d *disk) crashed(percent int, rng *rand.Rand) *disk {
	mem := d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.lost {
		if mem.Remove(path) == nil {
			_ = pebblestore.SyncDir(mem, mem.PathDir(path)) // in memory, it cannot fail
		}
	}
	return newDisk(mem)
}

// killed returns the disk that is found after the process was killed now. The kernel has the unsynced data, and a later loss of
// power takes it.
func (d *disk) killed() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	next := newDisk(d.mem)
	next.poisoned, next.lost = maps.Clone(d.poisoned), maps.Clone(d.lost)
	return next
}

// lose is called when the sync of a folder fails. No later sync makes the names durable that it would have, until they are made again.
//
// This is harder than ext4 and XFS. They write names to a journal, which has no holes. A later sync makes all earlier
// names durable, or fails because the journal could not be written. A file system without a journal takes the block of a
// folder for clean after a failed write, like the block of a file, but a new name dirties the block. Only folders in a folder are never
// lost, because the sync that follows their creation is repeated, which needs a journal.
func (d *disk) lose(folder string) {
	durable := d.mem.CrashClone(vfs.CrashCloneCfg{})
	names, _ := d.mem.List(folder)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		path := d.mem.PathJoin(folder, name)
		info, err := d.mem.Stat(path)
		if _, missing := durable.Stat(path); err == nil && !info.IsDir() && missing != nil {
			d.lost[path] = true
		}
	}
}

// named is called when a name is made or removed.
func (d *disk) named(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.poisoned, name)
	delete(d.lost, name)
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
	if d.dead && kind.changes() {
		d.mu.Unlock()
		return fault{err: errDead}
	}
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
	d.named(name)
	f, err := d.mem.Create(name, c)
	return d.file(name, f, err)
}

// renamed keeps the fate of a file with it.
func (d *disk) renamed(old, name string) {
	d.linked(old, name)
	d.named(old)
}

// linked gives the fate of a file to its other name.
func (d *disk) linked(old, name string) {
	d.named(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.poisoned[name] = d.poisoned[old]
}

func (d *disk) Link(old, name string) error {
	if f := d.op(opRename, name); f.err != nil {
		return f.err
	}
	d.linked(old, name)
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
	d.named(name)
	return d.mem.Remove(name)
}

func (d *disk) RemoveAll(name string) error {
	if f := d.op(opRemove, name); f.err != nil {
		return f.err
	}
	d.named(name)
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

func (f *diskFile) sync(do func() error) error {
	x := f.d.op(opSync, f.name)
	if x.err != nil && f.folder {
		f.d.lose(f.name)
	}
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

// isLog reports whether a file is a write-ahead log. Its syncs hold no lock of the store, so they may be slow.
func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

func vfsCrashable() *vfs.MemFS { return vfs.NewCrashableMem() }

// Data that a failed sync covered is lost with the power, even if the process was killed before, and nothing else is lost.
func TestDiskLosesWhatAFailedSyncCovered(t *testing.T) {
	d := newDisk(vfsCrashable())
	if err := errors.Join(d.MkdirAll("data", 0o700), pebblestore.SyncDir(d, ".")); err != nil {
		t.Fatal(err)
	}
	fail := func(kind string, do func() error) {
		t.Helper()
		d.setFault(func(_ int, k opKind, _ string) fault {
			if k == opSync {
				return fault{err: errIO}
			}
			return fault{}
		})
		if err := do(); !errors.Is(err, errIO) {
			t.Fatalf("a sync of a %s that fails: %v", kind, err)
		}
		d.heal()
	}
	syncDir := func() error { return pebblestore.SyncDir(d, "data") }
	note := func(name string) error { return pebblestore.WriteNote(d, "data", name, name) }

	if err := note("before"); err != nil {
		t.Fatal(err)
	}
	made := func(name string) vfs.File {
		f, err := d.Create("data/"+name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write([]byte(name))
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	name, again := made("name"), made("again")
	if err := errors.Join(name.Sync(), again.Sync()); err != nil {
		t.Fatal(err)
	}
	fail("folder", syncDir)
	bytes := made("bytes")
	fail("file", bytes.Sync)
	if err := errors.Join(bytes.Sync(), note("again"), note("after"), syncDir()); err != nil {
		t.Fatal(err)
	}
	late := made("late")
	d = d.killed()
	if _, err := late.Write([]byte("x")); !errors.Is(err, errDead) {
		t.Errorf("a write of a killed process: %v", err)
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		names, err := d.List("data")
		for _, name := range names {
			text, e := pebblestore.ReadNote(d, "data/"+name, 100)
			err = errors.Join(err, e)
			got[name] = text
		}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", when, got, err, want)
		}
	}
	check("after the kill", map[string]string{
		"before": "before", "name": "name", "again": "again", "bytes": "bytes", "after": "after", "late": "late",
	})
	if err := syncDir(); err != nil {
		t.Fatal(err)
	}
	d = d.crashed(0, nil)
	check("after the loss of power", map[string]string{"before": "before", "again": "again", "bytes": "", "after": "after", "late": ""})
}
