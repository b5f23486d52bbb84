package buffer

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

// The copy stays small. Lines that later lines have replaced are dropped, and the last line of each record stays.
func TestCopyOfTheRecordsStaysSmall(t *testing.T) {
	dir := t.TempDir()
	c := &recordCopy{fs: vfs.Default, dir: dir, log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1), done: make(chan struct{})}
	name := format.AppendCopyLine(nil, format.CopyInstance, 0, []byte("old"))
	c.first = name
	go c.run()
	const records, written = 10, 5 << 20
	last := map[uint64][]byte{}
	for n := 0; n < written; {
		var lines []byte
		for num := range uint64(records) {
			last[num] = format.AppendCopyLine(nil, format.PrefixSlice, num, fmt.Appendf(nil, `{"file": %d, "at": %d}`, num, n))
			lines = append(lines, last[num]...)
		}
		lines = format.AppendCopyLine(lines, format.PrefixFile, uint64(n), []byte("{}"))
		lines = format.AppendCopyLine(lines, format.PrefixFile, uint64(n), nil)
		c.add(lines)
		n += len(lines)
	}
	c.stop()
	text, err := pebblestore.ReadNote(vfs.Default, dir+"/"+format.CopyFile, 2*written)
	if err != nil {
		t.Fatal(err)
	}
	want := name
	for num := range uint64(records) {
		want = append(want, last[num]...)
	}
	if got := compactCopy([]byte(text)); !bytes.Equal(got, want) || len(text) > 3*copySlack {
		t.Errorf("the copy has %d bytes, its last lines are\n%s\nwant\n%s", len(text), got, want)
	}
}

// While the disk is full, changes wait in memory, and arrive in the copy when there is room. If too many wait, the copy is deleted.
func TestCopyOfTheRecordsOnAFullDisk(t *testing.T) {
	line := func(num, n int) []byte {
		return format.AppendCopyLine(nil, format.PrefixSlice, uint64(num), bytes.Repeat([]byte("1"), n))
	}
	for _, c := range []struct {
		name      string
		fullFirst bool // before the first write
		size      int  // of each change
		deleted   bool
	}{
		{name: "from the beginning", fullFirst: true, size: 10},
		{name: "later", size: 10},
		{name: "for too many changes", size: copySlack, deleted: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var full atomic.Bool
			disk := disktest.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full.Load() && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt || op.Kind == errorfs.OpCreate) {
					return syscall.ENOSPC
				}
				return nil
			}))
			dir := t.TempDir()
			rc := &recordCopy{fs: disk, dir: dir, log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1), done: make(chan struct{})}
			rc.first = format.AppendCopyLine(nil, format.CopyInstance, 0, []byte("name"))
			want := bytes.Clone(rc.first)
			full.Store(c.fullFirst)
			go rc.run()
			for i := range 5 {
				if i == 1 {
					rc.write()
					full.Store(true)
				}
				if i == 4 {
					full.Store(false)
				}
				lines := line(i, c.size)
				want = append(want, lines...)
				rc.add(lines)
				rc.write()
			}
			rc.stop()
			text, err := pebblestore.ReadNote(vfs.Default, dir+"/"+format.CopyFile, int64(2*len(want)))
			switch {
			case c.deleted:
				if err == nil {
					t.Errorf("the copy has %d bytes, want no copy", len(text))
				}
			case err != nil || text != string(want):
				t.Errorf("the copy is\n%s(%v), want\n%s", text, err, want)
			}
		})
	}
}
