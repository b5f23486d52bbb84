package buffer

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// The copy stays small: lines that later lines have replaced are dropped, and the last line of each record stays.
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
