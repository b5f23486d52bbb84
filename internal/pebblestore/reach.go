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

// The end of the newest log is what only that log tells. When it is cut, or rots, in a process that was killed, it looks
// like a write that a crash has torn, and the store goes back in time without a word. That is harmless while nobody has
// seen what was lost. So an owner calls [Opening.NoteReach] before it acts outside of the store on what is in it, and the
// note then says how long the log was.
//
// The design that lost: to check after every crash, by asking the outside. It costs calls where nothing is wrong, and every
// open thing must be closed first.

// reachNote holds two slots that are written in turn, so that a torn write leaves the other. Its name is that of a file of
// the store, so it goes where the store goes.
const (
	reachNote = "reach"
	reachSlot = 4096 // a slot is one block of the disk
)

// reach is a place in the logs: everything before it was on disk.
type reach struct {
	log    uint64
	length int64
}

func (r reach) before(o reach) bool {
	return r.log < o.log || r.log == o.log && r.length < o.length
}

// slot returns the content of a slot. seq tells which of the two is newer.
func (r reach) slot(seq uint64) []byte {
	text := fmt.Sprintf("%d %d %d", seq, r.log, r.length)
	text = fmt.Sprintf("%s %08x\n", text, MaskedSum([]byte(text)))
	return fmt.Appendf(nil, "%-*s\n", reachSlot-1, text)
}

// parseSlot reads a slot.
func parseSlot(b []byte) (r reach, seq uint64, ok bool) {
	var sum uint32
	line, _, _ := strings.Cut(string(b), "\n")
	if n, err := fmt.Sscanf(line, "%d %d %d %x", &seq, &r.log, &r.length, &sum); n != 4 || err != nil {
		return reach{}, 0, false
	}
	text := fmt.Sprintf("%d %d %d", seq, r.log, r.length)
	return r, seq, line == fmt.Sprintf("%s %08x", text, sum) && sum == MaskedSum([]byte(text))
}

// readReach reads the note of a store; zero where there is none. Of two slots at most one can be torn, so a note without a
// whole one is damaged.
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
		return reach{}, Damaged("%s, which says how long the logs were, is damaged: what is missing at the end of a log cannot be told", reachNote)
	}
	return newest, nil
}

// reacher writes the note of one opening.
type reacher struct {
	mu      sync.Mutex
	reached reach // what is on disk

	writing sync.Mutex // held while the note is written; guards what follows
	noted   reach
	file    vfs.File // nil before the first note, and after an error
	seq     uint64
}

// synced is told that a log is on disk up to a length.
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

// NoteReach notes, durably, how long the logs are. An opening that finds them shorter reports a [*DamageError]. Calls that come
// together share a write, and one with nothing new makes none. A note that cannot be written, on a full disk for example,
// is left out: then the loss of what came since cannot be told from a torn write.
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

// write begins with a new file, which replaces that of an earlier opening at once, and then writes its slots in place.
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

// drop closes the note. Called with writing held, or when nothing writes any more.
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
