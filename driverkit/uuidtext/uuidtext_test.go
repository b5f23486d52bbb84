package uuidtext_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/forebay/forebay/driverkit/uuidtext"
	"github.com/forebay/forebay/internal/seedtest"
)

func TestEachDigit(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 20 {
		a, b := rng.Uint64(), rng.Uint64()
		id := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), b)
		text := fmt.Appendf(nil, "%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
		if hi, lo, ok := uuidtext.Parse(text); !ok || hi != a || lo != b {
			t.Fatalf("%s: got %x, %x, %v, want ok and hi == %v and lo == %v", text, hi, lo, ok, a, b)
		}
		for at := range text {
			own := text[at]
			for c := range 256 {
				text[at] = byte(c)
				hi, lo, ok := uuidtext.Parse(text)
				want := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
				if own == '-' {
					want = c == '-'
				}
				if ok != want {
					t.Fatalf("%q: got %v, want %v", text, ok, want)
				}
				if !ok {
					continue
				}
				digits := append(append(append(append(append([]byte(nil), text[:8]...), text[9:13]...), text[14:18]...), text[19:23]...), text[24:]...)
				id, err := hex.DecodeString(string(digits))
				if err != nil || hi != binary.BigEndian.Uint64(id) || lo != binary.BigEndian.Uint64(id[8:]) {
					t.Fatalf("%s: got %x, %x, %v, want no error and hi == binary.BigEndian.Uint64(id) and lo == binary.BigEndian.Uint64(id[8:])", text, hi, lo, err)
				}
			}
			text[at] = own
		}
		for _, other := range [][]byte{nil, text[:35], append(text[:36:36], '0')} {
			if _, _, ok := uuidtext.Parse(other); ok {
				t.Fatalf("%q is read", other)
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte("0f9619ff-8b86-4011-b42d-00c04fc964ff")
	for b.Loop() {
		if _, _, ok := uuidtext.Parse(text); !ok {
			b.Fatal("not read")
		}
	}
}
