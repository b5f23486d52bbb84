package pebblestore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The owner of a store may write elsewhere on the same volume. It claims the room for that first, so that the store can always
// write its logs to tables, be closed, and be opened again. See keptRoom.
//
// The design that lost was to subtract claims from the room for new rows. Rows would be refused long before the volume is full, and
// the reserve is there for this.

// spareRoom is for space that cannot be measured, such as blocks of folders and partly used blocks.
const spareRoom = 1 << 20

// ClaimError says that work outside of the store would take room that the store needs. It can be done when there is more.
type ClaimError struct {
	// Dir is the folder of the store.
	Dir string
	// Free is the number of bytes of its volume that others may take, Needed the number that the work needs.
	Free, Needed int64
}

func (e *ClaimError) Error() string {
	return fmt.Sprintf("no room: %d bytes are needed on the volume of %s, which must keep room for its own files and has %d to spare: free some",
		e.Needed, e.Dir, e.Free)
}

// Claim takes n bytes of the store's volume for work in another folder, which need not exist yet. The caller calls release
// when the work has ended. On another volume, or where nothing is known of it, work costs nothing. An error is a
// [*ClaimError].
func (o *Opening) Claim(dir string, n int64) (release func(), err error) {
	r := &o.room
	left := r.left()
	if left > unlimited/2 || !o.sharesVolume(dir) {
		return func() {}, nil
	}
	volume, err := o.conf.FS.GetDiskUsage(o.conf.Dir)
	if err != nil {
		return func() {}, nil //nolint:nilerr // then nothing is known
	}
	// take takes the room if the store, whose files take so many bytes, does not need it.
	take := func(files int64) (free int64, ok bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		free = int64(min(volume.AvailBytes, unlimited)) - r.claimed - keptRoom(files, r.logs.Load(), left)
		if ok = free >= n; ok {
			r.claimed += n
			o.fs.files.deduct(n) // compactions can wait
		}
		return free, ok
	}
	if _, ok := take(0); !ok { // a store with files needs no more, and to measure them takes longer than a small write
		// The room of files that were deleted since it was measured is free now, and the store may need it again. The volume is asked first, so a
		// file that is deleted in between counts for neither.
		files := r.files.Load()
		if now, known, err := usage(o.conf.FS, o.conf.Dir); err == nil && known {
			files = min(files, now)
		}
		if free, ok := take(files); !ok {
			return nil, &ClaimError{Dir: o.conf.Dir, Free: max(0, free), Needed: n}
		}
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.claimed -= n
	}, nil
}

// sharesVolume reports whether a folder is on the volume of the store. It asks once for a folder that exists.
func (o *Opening) sharesVolume(dir string) bool {
	if shares, known := o.room.volumes.Load(dir); known {
		return shares.(bool)
	}
	shares := vfs.Root(o.conf.FS) == vfs.Default && sameVolume(o.conf.Dir, dir)
	if _, err := o.conf.FS.Stat(dir); err == nil {
		o.room.volumes.Store(dir, shares)
	}
	return shares
}

// keptRoom is how many free bytes the volume must keep for a store whose files take so many bytes, logs among them, and
// which may store some more before it is measured again. They are enough to write the logs to tables, and for Open, which
// wants leastRoom.
func keptRoom(files, logs, left int64) int64 {
	return max(logs+logs/8, leastRoom-files) + max(0, left)/2 + spareRoom
}
