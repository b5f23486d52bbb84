package pebblestore

import (
	"testing"
	"time"

	"github.com/forebay/forebay/internal/disktest"
)

// Rows that are stored between two measurements of the room leave less of it to compactions: both together stay within the bound.
func TestCompactionsGetWhatRowsLeave(t *testing.T) {
	o := &Opening{fs: New(disktest.New(t), "data", func(error) {})}
	o.room.o = o
	o.room.left.Store(unlimited) // so that nothing is measured
	o.room.began = time.Now()
	files := &o.fs.files
	o.Stored(1000)
	if files.quota != unlimited {
		t.Errorf("while nothing is known of the room, compactions may write %d", files.quota)
	}
	files.allow(10_000)
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
