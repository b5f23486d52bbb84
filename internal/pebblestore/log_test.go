package pebblestore

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

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
