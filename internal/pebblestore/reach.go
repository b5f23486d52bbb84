package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Only the newest log itself says how long it is. If its end is cut or damaged after a process was killed, it looks like a write
// that the crash has torn, and the store goes back in time without an error. That is harmless while no reader has seen the lost
// part. So an owner calls [Opening.NoteReach] before it acts outside the store on its content, and the note says how long the
// log was.
//
// The design that lost was to ask the outside after each crash. It costs calls where nothing is wrong, and whatever is open must be
// closed first.

// reachNote holds two slots that are written in turn, so that a torn write leaves the other one. It has no
// prefix of a note of the buffer, so salvage moves it with the store.
const (
	reachNote = "reach"
	reachSlot = 4096 // a slot is one block of the disk
)

// reach is a position in the logs. Everything before it was on disk.
type reach struct {
	log    uint64
	length int64
}

func (r reach) before(o reach) bool { return r.log < o.log || r.log == o.log && r.length < o.length }

// slot returns the content of a slot. The one with the higher seq is the newer one.
func (r reach) slot(seq uint64) []byte {
	text := fmt.Sprintf("%d %d %d", seq, r.log, r.length)
	text = fmt.Sprintf("%s %08x\n", text, MaskedSum([]byte(text)))
	return fmt.Appendf(nil, "%-*s\n", reachSlot-1, text)
}

func parseSlot(b []byte) (r reach, seq uint64, ok bool) {
	var sum uint32
	line, _, _ := strings.Cut(string(b), "\n")
	if n, err := fmt.Sscanf(line, "%d %d %d %x", &seq, &r.log, &r.length, &sum); n != 4 || err != nil {
		return reach{}, 0, false
	}
	text := fmt.Sprintf("%d %d %d", seq, r.log, r.length)
	return r, seq, line == fmt.Sprintf("%s %08x", text, sum) && sum == MaskedSum([]byte(text))
}

// readReach reads the note of a store, or zero if there is none. At most one of the two slots can be torn, so a note without a
// whole slot is damaged.
func readReach(disk vfs.FS, dir string) (reach, error) {
	f, err := disk.Open(disk.PathJoin(dir, reachNote))
	if errors.Is(err, fs.ErrNotExist) {
		return reach{}, nil
	}
	if err != nil {
		return reach{}, err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return reach{}, err
	}
	var newest reach
	var newestSeq uint64
	found := false
	for at := 0; at < 2*reachSlot && at < len(text); at += reachSlot {
		r, seq, ok := parseSlot(text[at:min(at+reachSlot, len(text))])
		if ok && (!found || seq > newestSeq) {
			newest, newestSeq, found = r, seq, true
		}
	}
	if !found {
		return reach{}, Damaged("%s, which says how long the logs were, is damaged: missing data at the end of a log cannot be detected", reachNote)
	}
	return newest, nil
}

// reacher writes the note of one opening.
type reacher struct {
	mu      sync.Mutex
	reached reach // the note on disk

	writing sync.Mutex // held while the note is written, guards what follows
	noted   reach
	file    vfs.File // nil before the first note, and after an error
	seq     uint64
}

// synced records that a log is on disk up to a length.
func (r *reacher) synced(to reach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reached.before(to) {
		r.reached = to
	}
}

func (r *reacher) now() reach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached
}

// NoteReach durably notes how long the logs are. An opening that finds them shorter reports a [*DamageError]. Concurrent calls
// share a write, and a call with nothing new makes none. If the note cannot be written, as on a full disk, it is left out, and
// the loss of what came since then cannot be told from a torn write.
func (o *Opening) NoteReach() { o.fs.noteReach() }

func (s *FS) noteReach() {
	r := &s.reacher
	due := r.now()
	r.writing.Lock()
	defer r.writing.Unlock()
	if !r.noted.before(due) {
		return
	}
	due = r.now()
	var err error
	if !s.change(func() error { err = r.write(s.FS, s.dir, due); return nil }) {
		return // the opening has ended, and the folder is the next one's
	}
	if err != nil {
		r.drop()
		return
	}
	r.noted = due
}

// write replaces the note of an earlier opening by a new file, and from then on writes the slots of that in place.
func (r *reacher) write(disk vfs.FS, dir string, due reach) (err error) {
	r.seq++
	slot := due.slot(r.seq)
	if r.file != nil {
		if _, err := r.file.WriteAt(slot, int64(r.seq%2)*reachSlot); err != nil {
			return err
		}
		return r.file.SyncData()
	}
	if err := WriteNote(disk, dir, reachNote, string(slot)+string(slot)); err != nil {
		return err
	}
	r.file, err = disk.OpenReadWrite(disk.PathJoin(dir, reachNote), vfs.WriteCategoryUnspecified)
	return err
}

// drop closes the note. Called with writing held, or when there are no more writes.
func (r *reacher) drop() {
	if r.file != nil {
		_ = r.file.Close() // what matters of it was synced
		r.file = nil
	}
}

// closeReach ends the writing of the note.
func (s *FS) closeReach() {
	s.reacher.writing.Lock()
	defer s.reacher.writing.Unlock()
	s.reacher.drop()
}
