package buffer

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// recordCopy keeps a copy of the records of sinks, files and slices in a separate file, format.CopyFile. The records of a store lie in a few small
// tables. If one of them is damaged, the rows of these files and slices lie whole in staging, and only the copy says where they belong. The copy of a
// sink has its positions, without which a replay would store its rows a second time, and its number, without which its keys would be forgotten.
//
// The copy contains only changes that are durable in the store. It may lack the latest changes, because it is not synced after each change. So its
// records may be old, like the records that a salvage finds in a damaged store, and a salvage treats them alike.
//
// It has a separate goroutine, so that no commit waits for it. Driver calls wait (see write). While the disk refuses writes, changes wait in
// memory. When they are larger than copySlack, the copy is deleted until the store is opened again.
type recordCopy struct {
	fs  vfs.FS
	dir string
	log *slog.Logger

	mu      sync.Mutex
	pending []byte // lines to append
	ended   bool

	wake chan struct{}
	done chan struct{}

	writing    sync.Mutex // guards the members below
	first      []byte     // the text with which the file begins, until it is written
	failed     bool       // no write follows
	refused    bool       // the disk has refused the last write
	file       vfs.File
	size, base int64 // now, and after the file was written from the beginning
}

// copySlack is how many bytes the copy grows before it is written from the beginning, in addition to twice its size then.
const copySlack = 1 << 20

// newRecordCopy replaces the copy by the current state. With a changelog there is none, because the changelog has everything, and nothing is
// salvaged. It is called while no commit is running.
func (b *Buffer) newRecordCopy() *recordCopy {
	c := &recordCopy{fs: b.fs, dir: b.dir, log: b.log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if b.opts.Changelog != nil {
		c.ended, c.failed = true, true
		c.remove()
		close(c.done)
		return c
	}
	text := format.AppendCopyLine(nil, format.CopyInstance, 0, []byte(b.instance))
	for _, num := range slices.Sorted(maps.Keys(b.mu.byNum)) {
		text = format.AppendCopyLine(text, format.PrefixSink, uint64(num), format.Encode(&b.mu.byNum[num].rec))
	}
	for _, num := range slices.Sorted(maps.Keys(b.mu.files)) {
		text = format.AppendCopyLine(text, format.PrefixFile, num, format.Encode(&b.mu.files[num].rec))
	}
	for _, num := range slices.Sorted(maps.Keys(b.mu.slices)) {
		text = format.AppendCopyLine(text, format.PrefixSlice, num, format.Encode(&b.mu.slices[num].rec))
	}
	c.first = text
	go c.run()
	return c
}

// add appends the lines of a durable commit.
func (c *recordCopy) add(lines []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.pending = append(c.pending, lines...)
		c.signal()
	}
}

// stop writes the added records and returns when the file is no longer used. It may be called twice.
func (c *recordCopy) stop() {
	c.mu.Lock()
	c.ended = true
	c.signal()
	c.mu.Unlock()
	<-c.done
}

func (c *recordCopy) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *recordCopy) run() {
	defer close(c.done)
	for ended := false; !ended; {
		c.write()
		<-c.wake
		c.mu.Lock()
		ended = c.ended
		c.mu.Unlock()
	}
	c.write()
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.refused || c.file != nil && c.file.Sync() != nil {
		c.fail()
	} else if c.file != nil {
		_ = c.file.Close()
	}
	c.failed = true // a driver call that was left alone writes no more
}

// write returns when everything that was added before the call is in the file. Driver calls begin with it, so the copy has the record of a slice
// before its object is in staging.
func (c *recordCopy) write() {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.failed {
		return
	}
	c.mu.Lock()
	lines := c.pending
	c.pending = nil
	c.mu.Unlock()
	err := c.store(lines)
	if err != nil {
		c.mu.Lock()
		c.pending = append(lines, c.pending...)
		c.mu.Unlock()
		if len(lines) > copySlack {
			c.fail()
		}
	} else if c.size > 2*c.base+copySlack {
		err = c.compact()
	}
	if err != nil && (c.failed || !c.refused) {
		c.log.Warn("copy of the records not written", "dir", c.dir, "retried", !c.failed, "cause", err, "next", "check the disk of the data directory")
	}
	c.refused = err != nil
}

// store appends lines to the file. If the disk refuses them, the next call overwrites the part that was written.
func (c *recordCopy) store(lines []byte) error {
	if c.first != nil {
		if err := c.replace(c.first); err != nil {
			return err
		}
		c.first = nil
	}
	if len(lines) == 0 {
		return nil
	}
	if _, err := c.file.WriteAt(lines, c.size); err != nil {
		return err
	}
	c.size += int64(len(lines))
	return nil
}

// fail deletes the copy. No write follows.
func (c *recordCopy) fail() {
	c.failed = true
	c.mu.Lock()
	c.ended, c.pending = true, nil
	c.mu.Unlock()
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
	c.remove()
}

// replace writes the file from the beginning. After an error the old file stays.
func (c *recordCopy) replace(text []byte) error {
	if err := pebblestore.WriteNote(c.fs, c.dir, format.CopyFile, string(text)); err != nil {
		return err
	}
	file, err := c.fs.OpenReadWrite(c.fs.PathJoin(c.dir, format.CopyFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if c.file != nil {
		_ = c.file.Close() // the new file has everything
	}
	c.file, c.size, c.base = file, int64(len(text)), int64(len(text))
	return nil
}

// compact drops the lines that later lines have replaced.
func (c *recordCopy) compact() error {
	text := make([]byte, c.size)
	if _, err := c.file.ReadAt(text, 0); err != nil {
		return err
	}
	return c.replace(compactCopy(text))
}

// compactCopy keeps the last line of each record that is not deleted.
func compactCopy(text []byte) []byte {
	type record struct {
		kind byte
		num  uint64
	}
	last := map[record][]byte{}
	size := 0 // of the last lines
	for line := range bytes.Lines(text) {
		kind, num, content, ok := format.ParseCopyLine(bytes.TrimSuffix(line, []byte("\n")))
		switch at := (record{kind, num}); {
		case !ok:
		case len(content) == 0:
			size -= len(last[at])
			delete(last, at)
		default:
			size += len(line) - len(last[at])
			last[at] = line
		}
	}
	name := record{kind: format.CopyInstance}
	kept := append(make([]byte, 0, size), last[name]...)
	delete(last, name)
	for _, at := range slices.SortedFunc(maps.Keys(last), func(a, b record) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.num, b.num))
	}) {
		kept = append(kept, last[at]...)
	}
	return kept
}

func (c *recordCopy) remove() {
	if err := c.fs.Remove(c.fs.PathJoin(c.dir, format.CopyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("old copy of the records not removed", "dir", c.dir, "cause", err, "next", "remove the file")
	}
}
