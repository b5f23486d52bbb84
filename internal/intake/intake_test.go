package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/forebay/forebay/internal/fuzztest"
)

// text is the content of the files in testdata. The library for LZ4 made library, sums and high. Its command made linked and
// linked-sums, whose blocks continue the previous ones.
func text() []byte {
	var b strings.Builder
	seed := uint32(7)
	for b.Len() < 150_000 {
		seed = seed*1664525 + 1013904223
		fmt.Fprintf(&b, "%d the gate opens when the basin is full; ", seed>>12%4096)
		if seed>>20%50 == 0 {
			b.WriteString(strings.Repeat("=", int(seed>>24)*20))
		}
	}
	return []byte(b.String())
}

func TestLZ4Files(t *testing.T) {
	files, err := filepath.Glob("testdata/*.lz4")
	if err != nil || len(files) != 5 {
		t.Fatal(err, files)
	}
	want := text()
	in := New(1 << 20)
	for _, name := range files {
		frame, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		decode := func(data []byte) ([]byte, error) {
			b := &Body{Sent: data}
			defer in.Release(b)
			got, err := in.Decode(b, LZ4, 1<<19)
			return bytes.Clone(got), err
		}
		if got, err := decode(bytes.Clone(frame)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %v, %d bytes, want no error, %d", name, err, len(got), len(want))
		}
		skipped := append([]byte{0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2}, frame...)
		if got, err := decode(append(skipped, frame...)); err != nil || len(got) != 2*len(want) {
			t.Errorf("%s twice: got %v, %d bytes, want no error, %d", name, err, len(got), 2*len(want))
		}
		for cut := 1; cut < len(frame); cut += 1 + cut/10 {
			if _, err := decode(bytes.Clone(frame[:len(frame)-cut])); err == nil {
				t.Errorf("%s without its last %d bytes is taken", name, cut)
			}
		}
		if n := in.Taken(); n != 0 {
			t.Fatalf("%d bytes are reserved, want 0", n)
		}
	}
}

// The checksums of a frame detect each changed byte.
func TestLZ4Checksums(t *testing.T) {
	frame, err := os.ReadFile("testdata/sums.lz4")
	if err != nil {
		t.Fatal(err)
	}
	in := New(1 << 20)
	for i := 0; i < len(frame); i += 1 + i/20 {
		bad := bytes.Clone(frame)
		bad[i] ^= 0x11
		b := &Body{Sent: bad}
		if _, err := in.Decode(b, LZ4, 1<<19); err == nil {
			t.Errorf("byte %d of %d is changed, and nobody notices", i, len(frame))
		}
		in.Release(b)
	}
}

// A few bytes that claim to become many allocate no memory for the claim.
func TestSnappyClaim(t *testing.T) {
	in := New(1 << 20)
	for name, c := range map[string]struct {
		sent []byte
		want error
	}{
		"claims much":    {[]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, &DecodeError{}},
		"is large":       {snappy.Encode(nil, make([]byte, 100_001)), &TooLargeError{}},
		"fits":           {snappy.Encode(nil, make([]byte, 100_000)), nil},
		"empty":          {nil, &DecodeError{}},
		"cut":            {snappy.Encode(nil, []byte("the gate opens"))[:9], &DecodeError{}},
		"repeats of S2":  {[]byte{8, 0, 'a', 0x01, 0}, &DecodeError{}},
		"framed and cut": {[]byte(snappyMagic + "\x00\x10"), &DecodeError{}},
	} {
		b := &Body{Sent: c.sent}
		got, err := in.Decode(b, Snappy, 100_000)
		if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", c.want) || err == nil && len(got) != 100_000 {
			t.Errorf("%s: got %T %v, want %T", name, err, err, c.want)
		}
		in.Release(b)
	}
	if n := in.Taken(); n != 0 {
		t.Errorf("%d bytes are reserved, want 0", n)
	}
}

// Memory is reserved for bytes that arrived, counted as allocated, and given back when the body is dropped.
func TestReserved(t *testing.T) {
	in := New(4 << 20)
	b := new(Body)
	if err := in.Read(b, strings.NewReader(strings.Repeat("x", 1<<20)), 3<<20, 3<<20); err != nil {
		t.Fatal(err)
	}
	if n := in.Taken(); n < int64(cap(b.Sent)) || n > 2<<20 {
		t.Errorf("%d bytes are reserved for %d", n, cap(b.Sent))
	}
	if err := in.Take(b, 3<<20); !errors.Is(err, ErrBusy) {
		t.Errorf("above the bound: %v", err)
	}
	if room := in.Room(b); room != 2<<20 {
		t.Errorf("room for %d", room)
	}
	in.Drop(b)
	if n := in.Taken(); n != 0 || b.Sent != nil {
		t.Errorf("%d bytes are reserved after the end", n)
	}
	if err := in.Read(b, io.LimitReader(zeros{}, 4<<20), -1, 8<<20); !errors.Is(err, ErrBusy) {
		t.Errorf("a body above the bound: %v", err)
	}
	in.Release(b)
	if n := in.Taken(); n != 0 || b.Reuse() {
		t.Errorf("%d bytes are reserved, a buffer of %d is kept", n, cap(b.Sent))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Whatever the bytes are, there is no panic, no more than the limit, and nothing stays reserved.
func FuzzDecode(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, name := range []string{"library", "linked-sums"} {
		frame, err := os.ReadFile("testdata/" + name + ".lz4")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(LZ4), frame)
	}
	f.Add(uint8(Snappy), snappy.Encode(nil, text()[:1000]))
	f.Add(uint8(Gzip), []byte("\x1f\x8b"))
	in := New(1 << 20)
	f.Fuzz(func(t *testing.T, c uint8, data []byte) {
		const limit = 200_000
		b := &Body{Sent: bytes.Clone(data)}
		got, err := in.Decode(b, Coding(c%6), limit)
		if err == nil && Coding(c%6) != Identity && len(got) > limit {
			t.Errorf("got %d bytes, want at most %d", len(got), limit)
		}
		in.Release(b)
		if n := in.Taken(); n != 0 {
			t.Fatalf("%d bytes are reserved, want 0", n)
		}
	})
}
