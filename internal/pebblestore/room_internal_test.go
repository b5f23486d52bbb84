package pebblestore

import (
	"testing"
	"time"

	"github.com/forebay/forebay/internal/disktest"
)

// Rows that are stored between two measurements of the room leave less of it to compactions. Both together stay within the bound.
func TestCompactionsGetWhatRowsLeave(t *testing.T) {
	o := &Opening{fs: New(disktest.New(t), "data", func(error) {})}
	o.room.o = o
	o.room.bound.Store(unlimited) // so that nothing is measured
	o.room.began = time.Now()
	files := &o.fs.files
	o.Stored(1000)
	if files.quota != unlimited {
		t.Errorf("while nothing is known of the room, compactions may write %d", files.quota)
	}
	files.allow(10_000, files.taken())
	o.Stored(1000)
	if err := files.claim(8001); err == nil {
		t.Error("a compaction may use the room of 1000 bytes that were stored, and of their table")
	}
	if err := files.claim(8000); err != nil {
		t.Errorf("a compaction may not use the rest: %v", err)
	}
	o.Stored(1000)
	if files.quota != 0 {
		t.Errorf("with all of it used, compactions may write %d", files.quota)
	}
}

// What is stored or compacted while the room is measured counts, although the measurement may not have seen it.
func TestWritesDuringAMeasurementCount(t *testing.T) {
	o := &Opening{fs: New(disktest.New(t), "data", func(error) {})}
	o.room.o = o
	o.room.bound.Store(unlimited)
	o.room.began = time.Now()
	files := &o.fs.files
	files.allow(10_000, files.taken())
	spent, written := o.room.spent.Load(), files.taken() // the measurement begins
	o.Stored(1000)
	must(t, files.claim(3000))
	o.room.bound.Store(spent + 7000)
	files.allow(9000, written)
	if got := o.room.left(); got != 5000 {
		t.Errorf("7000 bytes were free when 1000 were stored: %d are left, want 5000", got)
	}
	if files.quota != 4000 {
		t.Errorf("9000 bytes were free when 1000 were stored and 3000 compacted: compactions may write %d, want 4000", files.quota)
	}
}

// A file that a compaction writes takes whole blocks of the disk, so the quota counts blocks, however many writes fill one.
func TestCompactionsTakeBlocks(t *testing.T) {
	disk := disktest.New(t)
	fs := New(disk, "data", func(error) {})
	must(t, fs.MkdirAll("data", 0o700))
	fs.files.allow(2*diskBlock, fs.files.taken())
	f, err := fs.Create("data/000007.sst", "pebble-compaction")
	must(t, err)
	for _, step := range []struct {
		write, left int
		refused     bool
	}{
		{write: 1, left: diskBlock},
		{write: diskBlock - 1, left: diskBlock},
		{write: diskBlock + 1, left: diskBlock, refused: true},
		{write: diskBlock},
		{write: 1, refused: true},
	} {
		_, err := f.Write(make([]byte, step.write))
		if refused := err != nil; refused != step.refused || fs.files.quota != int64(step.left) {
			t.Errorf("write of %d bytes: got %v and a quota of %d, want refused %t and %d", step.write, err, fs.files.quota, step.refused, step.left)
		}
	}
	must(t, f.Close())
}
