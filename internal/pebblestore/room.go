package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A store needs free room for its own work. The content of its logs is written to tables, at the next opening at the latest,
// and tables are rewritten to free the room of deleted rows. A store that fills its disk can do neither and could not be
// opened again. So the room is measured while the store is written:
//
//   - Full refuses more while the logs still fit a second time and a reserve is left.
//   - Compactions may use the reserve and no more, see files.claim.
//   - When room is short nothing is kept for later. Spare logs are deleted, nothing is written ahead, large logs become
//     tables.
//
// The room is the free space of the volume, or less if Config.Limit says so. It is measured in allocated blocks. A file system in memory
// does not report them. Then nothing is measured.
const (
	// leastRoom is the least room for a store, which is a write buffer with its log, the same as tables, and the reserve.
	leastRoom = 4 << 20
	// The reserve is a quarter of the room, at most mostReserve. With an eighth a full store could not always compact itself.
	reservePart = 4
	mostReserve = 256 << 20
	// The room is measured again when a quarter of it may be used up, and after measureEvery because others write too.
	measureEvery = time.Second
	// measureFull is the interval while there is no room.
	measureFull = 50 * time.Millisecond
	// diskBlock is the unit in which most file systems allocate.
	diskBlock = 4096
	// roomOfLists bounds the growth of the list of tables and its marker between two measurements.
	roomOfLists = 4 * diskBlock
	// idleAfter is the time without a write after which the store frees files it keeps for later.
	idleAfter = 30 * time.Second
	// idleLogs are the bytes of logs that an idle store may keep. They are cheap to read at the next opening.
	idleLogs = 1 << 20
	// A store is compacted when it has at least this much garbage, and at least as much as live bytes.
	leastGarbage = 1 << 20
	// giveEvery is the least time between two attempts to free room.
	giveEvery = time.Second
	// compactMost ends a compaction that frees room.
	compactMost = 5 * time.Second
)

// RoomError says that a store has too little room. Nothing is lost. Free room and open it again.
type RoomError struct {
	// Dir is the folder.
	Dir string
	// Free is the number of bytes that this user can still write to the volume, Needed the number that the store needs.
	Free, Needed int64
	// For is the purpose.
	For string
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("the volume of %s is too small: %d bytes are free for the store, it needs %d %s", e.Dir, e.Free, e.Needed, e.For)
}

// usage returns the bytes that the files of these kinds in a folder take, or all files without kinds. It counts allocated blocks, as du counts
// them, or their sizes where the file system does not report blocks. Then known is false.
func usage(disk vfs.FS, dir string, kinds ...fileKind) (total int64, known bool, err error) {
	names, err := disk.List(dir)
	if err != nil {
		return 0, false, err
	}
	for _, name := range names {
		if len(kinds) > 0 && !slices.Contains(kinds, kindOf(name)) {
			continue
		}
		size, ok, err := usageOf(disk, disk.PathJoin(dir, name))
		if err != nil {
			return 0, false, err
		}
		total += size
		known = known || ok
	}
	return total, known, nil
}

// usageOf is usage of one file; 0 when it is gone or a folder.
func usageOf(disk vfs.FS, path string) (int64, bool, error) {
	info, err := disk.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil || info.IsDir() {
		return 0, false, err
	}
	if n, ok := blocksOf(info); ok {
		return n, true, nil
	}
	return info.Size(), false, nil
}

// allocated returns the disk space that a file of n bytes occupies.
func allocated(n int64) int64 { return (n + diskBlock - 1) &^ (diskBlock - 1) }

// checkRoom returns the room that the store can have, 0 when it is unknown, or a [*RoomError]. With too little it first deletes
// files that are not needed.
func (o *Opening) checkRoom(logs logFiles) (int64, error) {
	used, _, err := usage(o.conf.FS, o.conf.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	volume, err := o.conf.FS.GetDiskUsage(o.conf.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return o.conf.Limit, nil
	}
	if err != nil {
		return 0, err
	}
	free := int64(min(volume.AvailBytes, unlimited))
	needed := logs.content() + logs.content()/8 + 256<<10
	if free < needed {
		if err := o.trim(logs); err != nil {
			return 0, err
		}
		before := used
		if used, _, err = usage(o.conf.FS, o.conf.Dir); err != nil {
			return 0, err
		}
		free += max(0, before-used)
	}
	if free < needed {
		return 0, &RoomError{Dir: o.conf.Dir, Free: free, Needed: needed, For: "to write what its logs hold to tables"}
	}
	if used+free < leastRoom {
		return 0, &RoomError{Dir: o.conf.Dir, Free: free, Needed: leastRoom - used, For: "for a write buffer, its log and its tables"}
	}
	space := used + free
	if o.conf.Limit > 0 {
		space = min(space, o.conf.Limit)
	}
	return space, nil
}

// trim frees the room that the files of a store take beyond their content.
func (o *Opening) trim(logs logFiles) error {
	if len(logs.idle) > 0 {
		// The list says that their rows are in tables, but it may not be synced yet.
		list, err := o.conf.FS.Open(logs.list)
		if err != nil {
			return err
		}
		if err := errors.Join(list.Sync(), list.Close()); err != nil {
			return err
		}
	}
	for _, path := range logs.idle {
		if err := o.conf.FS.Remove(path); err != nil {
			return err
		}
	}
	if vfs.Root(o.conf.FS) != vfs.Default {
		return nil
	}
	for path, end := range logs.needed {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		// The end mark of a closed log may follow the last chunk. Blocks after the end of the file are freed too.
		if err := os.Truncate(path, min(info.Size(), allocated(end+1)+diskBlock)); err != nil {
			return err
		}
	}
	return nil
}

// room is what an opening knows of the room it has.
type room struct {
	o *Opening

	spent   atomic.Int64 // bytes that were stored since the opening
	bound   atomic.Int64 // of spent: Full refuses when it is reached. It is unlimited while the room is unknown
	used    atomic.Int64
	limit   atomic.Int64 // of used
	free    atomic.Int64 // of the volume
	volume  atomic.Bool  // the volume has less room than Config.Limit allows
	files   atomic.Int64 // size of the files when it was measured
	logs    atomic.Int64 // content of the logs then
	recheck atomic.Int64 // when left returns less, it is measured
	at      atomic.Int64 // when it was measured, in nanoseconds since began
	began   time.Time
	stored  atomic.Bool // something was stored since the idle timer was set
	resting atomic.Bool // the store is idle and keeps nothing for later until it is written to again

	volumes  sync.Map // whether a folder is on the volume of the store
	updating atomic.Bool
	giving   atomic.Bool // room is being given back
	measure  sync.Mutex  // held while it is measured

	mu      sync.Mutex // guards what follows
	claimed int64      // by Claim
	idle    *time.Timer
	again   *time.Timer // the next measurement while there is no room
	closed  bool
	gave    time.Time // when room was given back last
	runs    sync.WaitGroup
}

func (r *room) start(o *Opening) {
	r.o, r.began = o, time.Now()
	r.bound.Store(unlimited)
	r.recheck.Store(0)
	r.update()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = time.AfterFunc(idleAfter, r.idled)
}

// left returns how many bytes may be stored before Full refuses.
func (r *room) left() int64 { return r.bound.Load() - r.spent.Load() }

// stop ends what runs in the background.
func (r *room) stop() {
	r.mu.Lock()
	r.closed = true
	for _, timer := range []*time.Timer{r.idle, r.again} {
		if timer != nil {
			timer.Stop()
		}
	}
	r.mu.Unlock()
	r.runs.Wait()
}

// Stored tells the opening that n bytes were written to its log. It is cheap and called after each commit, without locks of
// the database. It is safe for concurrent use.
func (o *Opening) Stored(n int) {
	r := &o.room
	room := 2 * int64(n) // in the log and, later, in a table
	r.spent.Add(room)
	left := r.left()
	r.o.fs.files.deduct(room) // no compaction may use room for data stored between two measurements
	if !r.stored.Load() {
		r.stored.Store(true)
		r.resting.Store(false)
		r.o.fs.files.save(left < r.recheck.Load())
		r.awake()
	}
	if left < r.recheck.Load() || r.age() > measureEvery {
		r.updateSoon()
	}
}

// Full returns nil while more may be stored, else the limit and how much of it is used. It does not block. While there is no room it
// is measured in the background, and Config.Roomier is called when there is some.
func (o *Opening) Full() *RoomUsed {
	r := &o.room
	if r.left() > 0 {
		return nil
	}
	if r.age() > measureFull {
		r.updateSoon()
	}
	r.updateLater()
	r.give(leastGarbage)
	return &RoomUsed{Used: r.used.Load(), Limit: r.limit.Load(), Free: r.free.Load(), Volume: r.volume.Load()}
}

// RoomUsed is how many bytes a store and the data that counts with it take, and how many they may take.
type RoomUsed struct {
	// Used and Limit are in bytes.
	Used, Limit int64
	// Free are the free bytes of the volume. Volume says that the volume has less room than Config.Limit allows.
	Free   int64
	Volume bool
}

// VolumeLeft returns how many bytes may be stored before Full refuses. It reports false unless the volume has less room than
// Config.Limit allows. The room is measured in the background, so the call does not wait for the volume.
func (o *Opening) VolumeLeft() (left int64, less bool) {
	r := &o.room
	if r.o == nil { // a read-only store accepts no rows
		return unlimited, false
	}
	if r.age() > measureEvery {
		r.updateSoon()
	}
	return max(0, r.left()), r.volume.Load()
}

func (r *room) age() time.Duration { return time.Since(r.began) - time.Duration(r.at.Load()) }

// updateSoon measures the room in the background.
func (r *room) updateSoon() {
	r.once(&r.updating, r.update)
}

// once runs fn in the background, unless running says that it does already.
func (r *room) once(running *atomic.Bool, fn func()) {
	if running.CompareAndSwap(false, true) && !r.background(func() { fn(); running.Store(false) }) {
		running.Store(false)
	}
}

// updateLater sets the timer of the next measurement, if it is not set.
func (r *room) updateLater() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.again != nil {
		return
	}
	r.again = time.AfterFunc(measureEvery, func() {
		r.mu.Lock()
		r.again = nil
		r.mu.Unlock()
		r.updateSoon()
	})
}

// background runs fn in a goroutine that stop waits for. It reports false after stop.
func (r *room) background(fn func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.runs.Go(fn)
	return true
}

// update measures the room. The measurement may miss bytes that are written meanwhile, so update subtracts them.
func (r *room) update() {
	if !r.measure.TryLock() {
		return // another goroutine measures
	}
	defer r.measure.Unlock()
	if r.o.Read() != nil {
		return
	}
	defer r.o.Release()
	spent, written := r.spent.Load(), r.o.fs.files.taken()
	used, known, err := usage(r.o.conf.FS, r.o.conf.Dir)
	r.at.Store(int64(time.Since(r.began)))
	if err != nil || !known {
		return
	}
	m := r.o.DB.Metrics()
	log, garbage := int64(m.WAL.Size), int64(0)
	if r.o.conf.Live != nil {
		garbage = int64(m.Total().TablesSize) - r.o.conf.Live()
	}
	space, less := int64(unlimited), false
	if volume, err := r.o.conf.FS.GetDiskUsage(r.o.conf.Dir); err == nil {
		free := int64(min(volume.AvailBytes, unlimited/2))
		r.free.Store(free)
		space, less = used+free, true
	}
	beside := int64(0)
	if r.o.conf.Beside != nil {
		beside = r.o.conf.Beside()
	}
	if limit := r.o.conf.Limit; limit > 0 {
		bound := max(0, limit-beside)
		less = space < bound
		space = min(space, bound)
	}
	r.volume.Store(less)
	reserve := min(space/reservePart, mostReserve)
	left := space - used - log - reserve
	r.files.Store(used)
	r.logs.Store(log)
	r.used.Store(used + beside)
	r.limit.Store(space + beside)
	r.recheck.Store(left - max(left/4, 64<<10))
	before := r.left()
	r.bound.Store(spent + left)
	switch {
	case left <= 0:
		r.updateLater()
	case before <= 0 && r.o.conf.Roomier != nil:
		r.background(r.o.conf.Roomier)
	}
	r.mu.Lock()
	r.o.fs.files.allow(max(0, space-used-log-r.claimed-roomOfLists), written)
	r.mu.Unlock()
	switch {
	case left < space/8:
		r.o.fs.files.save(true)
		r.give(leastGarbage)
	case left < space/2 && garbage > space/8:
		r.give(unlimited) // before it is short
	case left > space/4 && !r.resting.Load():
		r.o.fs.files.save(false)
	}
}

// awake sets the timer that waits for the store to be idle.
func (r *room) awake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.idle != nil {
		r.idle.Reset(idleAfter)
	}
}

func (r *room) idled() {
	if r.stored.Swap(false) {
		r.awake() // it was not idle. Look again
		return
	}
	r.resting.Store(true)
	r.o.fs.files.save(true)
	r.give(idleLogs)
}

// give gives room back in the background, at most every giveEvery.
func (r *room) give(logs int64) {
	r.mu.Lock()
	now := r.gave.IsZero() || time.Since(r.gave) >= giveEvery
	r.mu.Unlock()
	if !now {
		return
	}
	r.once(&r.giving, func() {
		r.o.giveBack(logs, false)
		r.mu.Lock()
		r.gave = time.Now()
		r.mu.Unlock()
		r.update()
	})
}

// giveBack frees the room the store does not need, that is, spare logs, logs larger than the given bytes, whose rows become tables,
// and tables of mostly deleted rows. A failure ends the opening, so the next write reports it.
func (o *Opening) giveBack(logs int64, closing bool) {
	o.fs.files.save(true)
	o.fs.DropSpares()
	took, _, err := usage(o.conf.FS, o.conf.Dir, kindLog)
	if err != nil {
		return
	}
	m := o.DB.Metrics()
	if took > logs && o.fits(int64(m.WAL.Size)) {
		if o.DB.Flush() != nil {
			return
		}
		m = o.DB.Metrics()
	}
	if o.conf.Live == nil {
		return
	}
	if closing {
		o.fs.files.allow(unlimited, 0)
	} else {
		o.room.update()
	}
	live := o.conf.Live()
	if tables := int64(m.Total().TablesSize); tables-live < leastGarbage || tables < 2*live || !o.fits(live) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), compactMost)
	defer cancel()
	_ = o.DB.Compact(ctx, firstKey, lastKey, false)
}

// errNoRoom says that the volume has no room for a second copy of the store.
var errNoRoom = errors.New("the volume has no room to rewrite the store: free some, or wait until rows are in their tables")

// Purge rewrites the store without deleted records, so that no file contains their bytes. Files that are not needed are deleted in the background,
// soon after the call. It reads and writes all that is stored, and other calls continue. The caller keeps the opening with Read.
func (o *Opening) Purge(ctx context.Context) error {
	if o.conf.Live != nil && !o.fits(o.conf.Live()) {
		return errNoRoom
	}
	o.fs.files.purge()
	o.fs.DropSpares()
	o.fs.files.purge() // a log that was begun meanwhile may be written over a spare, and has its bytes after its end
	if err := o.DB.Flush(); err != nil {
		return err
	}
	return o.DB.Compact(ctx, firstKey, lastKey, false)
}

// All keys lie between these.
var firstKey, lastKey = []byte{0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// fits reports whether the volume has room for n bytes and some more.
func (o *Opening) fits(n int64) bool {
	volume, err := o.conf.FS.GetDiskUsage(o.conf.Dir)
	return err != nil || int64(min(volume.AvailBytes, unlimited)) > n+n/8+1<<20
}

// Taken returns the bytes that the store takes, as du counts them.
func (o *Opening) Taken() (int64, error) {
	n, _, err := usage(o.conf.FS, o.conf.Dir)
	return n, err
}
