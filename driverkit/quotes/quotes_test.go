package quotes_test

import (
	"encoding/binary"
	"testing"

	"github.com/forebay/forebay/driverkit/quotes"
	"github.com/forebay/forebay/internal/seedtest"
)

func TestMasksHaveTheQuotesAndNothingElse(t *testing.T) {
	rng := seedtest.Rand(t)
	const near = "\"\"\"!#\x00\x01\x7f\x80\xa1\xa2\xa3\xff" // quotes, and bytes that differ from one by a bit
	for range 20_000 {
		var block [quotes.Bytes]byte
		want := uint64(0)
		for i := range block {
			if block[i] = byte(rng.Uint32()); rng.IntN(3) > 0 {
				block[i] = near[rng.IntN(len(near))]
			}
			if block[i] == '"' {
				want |= 1 << i
			}
		}
		if got := quotes.Of(&block); got != want {
			t.Fatalf("%q has the mask %064b, want %064b", block, got, want)
		}
		word := uint64(0)
		for i := range 8 {
			word |= want >> i & 1 << (8*i + 7)
		}
		if got := quotes.In(binary.LittleEndian.Uint64(block[:])); got != word {
			t.Fatalf("%q has the bits %064b, want %064b", block[:8], got, word)
		}
	}
}
