package salvage

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/disktest"
)

// Walk ends with the first error of its function.
func TestWalkEndsWithTheErrorOfItsFunction(t *testing.T) {
	disktest.Each(t, func(t *testing.T, newDisk func(testing.TB) *disktest.Disk) {
		db, err := pebble.Open("data", &pebble.Options{FS: newDisk(t), Logger: quiet{}})
		must(t, err)
		defer func() { must(t, db.Close()) }()
		for seq := range uint32(3) {
			key, value := make([]byte, format.ChunkKeySize), make([]byte, format.ChunkHeaderSize)
			format.PutChunkKey(key, 1, seq)
			format.PutChunkHeader(value, format.ChunkHeader{Rows: 1, Raw: 10, Slice: format.Tally{Rows: int64(seq) + 1}})
			must(t, db.Set(key, value, pebble.NoSync))
		}
		stop, seen := errors.New("stop"), 0
		err = Walk(db, 1, format.Extent{}, func(error) bool { return false }, func(c Chunk) error {
			if seen++; c.Seq == 1 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || seen != 2 {
			t.Errorf("the walk ends with %v after %d chunks, want %v after 2", err, seen, stop)
		}
	})
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
