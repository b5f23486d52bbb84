package pebblestore

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/forebay/forebay/internal/disktest"
)

// The rest of a block without room for a head is written with the chunk before it. So a log that was on disk up to the end of such a block
// misses nothing, and one that was longer does.
func TestCheckLogAtTheEndOfABlock(t *testing.T) {
	disktest.Each(t, func(t *testing.T, newDisk func(testing.TB) *disktest.Disk) {
		disk := newDisk(t)
		must(t, disk.MkdirAll("data", 0o700))
		const num, rest = 2, syncHeadSize - 1
		chunk := make([]byte, logBlock-rest)
		binary.LittleEndian.PutUint16(chunk[4:], uint16(len(chunk)-syncHeadSize))
		chunk[6] = 9 // a full chunk
		binary.LittleEndian.PutUint32(chunk[7:], num)
		binary.LittleEndian.PutUint32(chunk, MaskedSum(chunk[6:]))
		put(t, disk, "data/000002.log", string(chunk))
		for length, want := range map[int64]int{logBlock - rest: 0, logBlock: 0, logBlock + 1: 1} {
			damaged, end, err := checkLog(disk, "data/000002.log", num, reach{num, length}, false)
			if err != nil || len(damaged) != want || end != logBlock-rest {
				t.Errorf("of %d bytes: damage %v, the end %d, %v; want %d places and the end %d", length, damaged, end, err, want, logBlock-rest)
			}
		}
	})
}

// The search must not jump over a place where a head can stand.
func TestNextHeadMissesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		num := rng.Uint32N(3)
		b := make([]byte, rng.IntN(60))
		for i := range b {
			b[i] = byte(rng.IntN(4)) // few values, so that numbers are found by chance, also across each other
		}
		at := rng.IntN(len(b) + 1)
		want := len(b)
		for i := at; i+logHeadSize <= len(b); i++ {
			if n := binary.LittleEndian.Uint32(b[i+7:]); n == num || n == num+1 {
				want = i
				break
			}
		}
		if got := nextHead(b, at, num); got != want {
			t.Fatalf("from %d of % x with number %d: %d, want %d", at, b, num, got, want)
		}
	}
}
