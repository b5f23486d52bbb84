package quickgzip

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/gziptest"
	"github.com/forebay/forebay/internal/seedtest"
)

func check(t *testing.T, e *Encoder, src []byte) (kept bool) {
	t.Helper()
	const before = "before"
	dst := append(make([]byte, 0, len(before)+Room(len(src))), before...)
	out := e.Append(dst, src)
	if out == nil {
		return false
	}
	member := out[len(before):]
	if len(member) > len(src)/2+32 || string(out[:len(before)]) != before {
		t.Fatalf("%d bytes: got %d after %q, want at most half and 32", len(src), len(member), out[:len(before)])
	}
	if got := gziptest.Read(t, member); !bytes.Equal(got, src) {
		t.Fatalf("got %q back as %q, want the same", src, got)
	}
	return true
}

func TestMembersAreGzip(t *testing.T) {
	var e Encoder
	for name, c := range map[string]struct {
		text string
		kept bool
	}{
		"nothing":               {"", false},
		"one byte":              {"a", false},
		"too short for a match": {"abcabca", false},
		"one value":             {strings.Repeat("a", 4000), true},
		"far away":              {strings.Repeat("x", 2000) + "needle and thread" + strings.Repeat("y", 1900) + "needle and thread", true},
		"all values": {func() string {
			var all [256]byte
			for i := range all {
				all[i] = byte(i)
			}
			return strings.Repeat(string(all[:]), 8)
		}(), true},
		"rows": {strings.Repeat("\"{\"\"a\"\":1}\",2026-01-02T03:04:05Z,203.0.113.7\n", 30), true},
	} {
		t.Run(name, func(t *testing.T) {
			if kept := check(t, &e, []byte(c.text)); kept != c.kept {
				t.Errorf("kept: %v, want %v", kept, c.kept)
			}
		})
	}
	for length := range 3 * maxMatch { // every length of a match, and every way to split it
		text := "0123456789abcdefghijklmnopqrstuvwxyz" + strings.Repeat("m", length)
		check(t, &e, []byte(text+text))
	}
	rng := seedtest.Rand(t)
	kept := 0
	for range 2000 {
		var text []byte
		for size := rng.IntN(4 << 10 << (rng.IntN(2) * rng.IntN(4))); len(text) < size; {
			if from := rng.IntN(len(text) + 1); len(text) > 0 && rng.IntN(3) > 0 {
				text = append(text, text[from:min(len(text), from+rng.IntN(600))]...)
			} else {
				text = fmt.Append(text, rng.Uint64()>>rng.IntN(64), string(rune(rng.IntN(300))))
			}
		}
		if check(t, &e, text[:min(len(text), Longest)]) {
			kept++
		}
	}
	if kept < 100 {
		t.Errorf("%d of 2000 texts were compressed, want at least 100", kept)
	}
}

// A text in which a match could be too far away is left to another compressor.
func TestTextsThatAreTooLong(t *testing.T) {
	var e Encoder
	text := bytes.Repeat([]byte("the gate opens "), Longest)[:Longest+1]
	if !check(t, &e, text[:Longest]) {
		t.Error("the longest text was not compressed")
	}
	if check(t, &e, text) {
		t.Error("a longer text was compressed")
	}
}

func FuzzMember(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add([]byte("the gate opens when the basin is full and the water turns the wheel"), uint8(3))
	f.Add([]byte{0, 255, 144, 143}, uint8(200))
	var e Encoder
	f.Fuzz(func(t *testing.T, part []byte, times uint8) {
		text := bytes.Repeat(part, int(times)+1)
		check(t, &e, text[:min(len(text), Longest)])
	})
}
