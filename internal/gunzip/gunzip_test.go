package gunzip_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	kgzip "github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/gunzip"
	"github.com/forebay/forebay/internal/quickgzip"
	"github.com/forebay/forebay/internal/seedtest"
)

// read returns all text, and the error that is not io.EOF.
func read(src io.Reader) ([]byte, error) {
	r, err := gunzip.NewReader(src)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// library returns what klauspost/compress reads. The standard library ignores unknown flags.
func library(src io.Reader) ([]byte, error) {
	r, err := kgzip.NewReader(src)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func member(t testing.TB, level int, header gzip.Header, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Header = header
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func rows(rng *rand.Rand, size int) (text []byte) {
	for len(text) < size {
		text = fmt.Appendf(text, "\"%08x-0000-4000-8000-%012x\",\"2026-11-22T00:00:00.%06dZ\",\"%d\",\"click\",,\"{\"\"page\"\":%d,\"\"ref\"\":\"\"r%d\"\"}\"\n",
			rng.Uint32(), rng.Uint64()>>16, rng.IntN(1e6), rng.Int64N(1<<40), rng.IntN(1000), rng.IntN(100))
	}
	return text[:size]
}

// texts are rows, noise, and texts whose codes and matches have extreme lengths.
func texts(rng *rand.Rand) map[string][]byte {
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	var steep []byte // codes of 15 bits
	for i := range 18 {
		steep = append(steep, bytes.Repeat([]byte{byte(i * 7)}, 1<<i)...)
	}
	rng.Shuffle(len(steep), func(i, j int) { steep[i], steep[j] = steep[j], steep[i] })
	far := slices.Concat(noise[:32<<10], noise[:32<<10], noise[1:32<<10], rows(rng, 1000))
	var near []byte // matches of all small distances
	for distance := 1; distance < 40; distance++ {
		near = append(append(near, bytes.Repeat(noise[:distance], 700/distance)...), noise[distance*40:][:distance]...)
	}
	return map[string][]byte{
		"nothing": nil, "one byte": []byte("a"), "rows": rows(rng, 500_000), "few rows": rows(rng, 3000), "noise": noise, "steep": steep,
		"zeros": make([]byte, 300_000), "far": far, "near": near,
	}
}

// Members of the library at all levels, with all fields of a header, and members of quickgzip, are read as the library reads them, alone and
// one after the other, even if their bytes arrive one by one.
func TestRead(t *testing.T) {
	rng := seedtest.Rand(t)
	headers := []gzip.Header{{}, {Name: "rows.csv", Comment: "of a test", Extra: []byte("more"), OS: 3}}
	var all, allText []byte
	for name, text := range texts(rng) {
		for level := gzip.HuffmanOnly; level <= gzip.BestCompression; level++ {
			m := member(t, level, headers[rng.IntN(2)], text)
			if got, err := read(bytes.NewReader(m)); err != nil || !bytes.Equal(got, text) {
				t.Fatalf("%s at level %d: got %d bytes, want %d; %v", name, level, len(got), len(text), err)
			}
			if rng.IntN(2) == 0 {
				all, allText = append(all, m...), append(allText, text...)
			}
		}
		var long quickgzip.LongEncoder
		if m := long.Append(make([]byte, 0, quickgzip.Room(len(text))), text); m != nil {
			all, allText = append(all, m...), append(allText, text...)
		}
		var short quickgzip.Encoder
		if m := short.Append(make([]byte, 0, quickgzip.Room(len(text))), text); m != nil {
			all, allText = append(all, m...), append(allText, text...)
		}
	}
	for way, src := range map[string]io.Reader{
		"at once": bytes.NewReader(all), "byte by byte": iotest.OneByteReader(bytes.NewReader(all)), "with the error": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		if got, err := read(src); err != nil || !bytes.Equal(got, allText) {
			t.Errorf("all members %s: %d bytes, want %d; %v", way, len(got), len(allText), err)
		}
	}
}

// The header's own sum is checked. Libraries do not write one.
func TestReadHeaderSum(t *testing.T) {
	m := member(t, 1, gzip.Header{}, []byte("text"))
	withSum := func(low, high byte) []byte {
		return slices.Concat(m[:3], []byte{2}, m[4:10], []byte{low, high}, m[10:])
	}
	good := 0
	for sum := range 1 << 16 {
		got, err := read(bytes.NewReader(withSum(byte(sum), byte(sum>>8))))
		want, wantErr := library(bytes.NewReader(withSum(byte(sum), byte(sum>>8))))
		if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) || err != nil && !errors.Is(err, gunzip.ErrHeader) {
			t.Fatalf("sum %x: %q, %v, want %q, %v", sum, got, err, want, wantErr)
		}
		if err == nil {
			good++
		}
	}
	if good != 1 {
		t.Errorf("%d sums are right, want 1", good)
	}
}

// No text is invented for a truncated or altered member. The text before the error equals the library's text or is a prefix of it.
func TestReadDamage(t *testing.T) {
	rng := seedtest.Rand(t)
	broken := errors.New("broken")
	for name, text := range texts(rng) {
		text = text[:min(len(text), 20_000)]
		m := member(t, 1+rng.IntN(9), gzip.Header{Name: "n"}, text)
		for range 200 {
			end := rng.IntN(len(m))
			got, err := read(bytes.NewReader(m[:end]))
			if end > 0 && !errors.Is(err, io.ErrUnexpectedEOF) || end == 0 && !errors.Is(err, io.EOF) || !bytes.HasPrefix(text, got) {
				t.Fatalf("%s cut at %d of %d: got %d bytes and %v, want the beginning, and an unexpected end unless nothing is left", name, end, len(m), len(got), err)
			}
			got, err = read(io.MultiReader(bytes.NewReader(m[:end]), iotest.ErrReader(broken)))
			if !errors.Is(err, broken) || !bytes.HasPrefix(text, got) {
				t.Fatalf("%s broken at %d: got %d bytes, %v, want the begin of the text, %v", name, end, len(got), err, broken)
			}
			changed := bytes.Clone(m)
			changed[rng.IntN(len(m))] ^= 1 << rng.IntN(8)
			check(t, fmt.Sprintf("%s changed", name), changed)
		}
		if _, err := read(bytes.NewReader(append(bytes.Clone(m), "rest"...))); err == nil {
			t.Errorf("%s: got no error although other bytes follow, want one", name)
		}
	}
}

// check compares a reader with the library for any bytes. The library may read less before an error.
func check(t *testing.T, what string, data []byte) {
	t.Helper()
	got, err := read(bytes.NewReader(data))
	want, wantErr := library(bytes.NewReader(data))
	if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
		t.Fatalf("got %s: %x\n%d bytes, %v, want %d bytes, %v", what, data, len(got), err, len(want), wantErr)
	}
}

func FuzzRead(tf *testing.F) {
	f := fuzztest.New(tf)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, text := range texts(rng) {
		f.Add(member(tf, 6, gzip.Header{}, text[:min(len(text), 500)]))
	}
	f.Fuzz(func(t *testing.T, data []byte) { check(t, "fuzz", data) })
}

func TestClose(t *testing.T) {
	r, err := gunzip.NewReader(bytes.NewReader(member(t, 1, gzip.Header{}, []byte("text"))))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read after Close = %d, %v", n, err)
	}
}

// blocking is a source that waits in Read.
type blocking struct{ began, end chan struct{} }

func (b blocking) Read(p []byte) (int, error) {
	select {
	case <-b.end:
		return 0, io.EOF
	default:
	}
	close(b.began)
	<-b.end
	return copy(p, "noise"), nil
}

// A reader that is closed while it reads keeps its memory, and no other reader gets it.
func TestCloseDuringRead(t *testing.T) {
	text := rows(seedtest.Rand(t), 20_000)
	m := member(t, 1, gzip.Header{}, text)
	src := blocking{make(chan struct{}), make(chan struct{})}
	r, err := gunzip.NewReader(io.MultiReader(bytes.NewReader(m[:len(m)/2]), src))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(r)
		ended <- err
	}()
	<-src.began
	r.Close()
	second, err := gunzip.NewReader(bytes.NewReader(m))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	got := make([]byte, 100)
	if _, err := io.ReadFull(second, got); err != nil {
		t.Fatal(err)
	}
	close(src.end)
	if err := <-ended; err == nil {
		t.Error("no error from a source of noise")
	}
	rest, err := io.ReadAll(second)
	if got = append(got, rest...); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the second reader: %d bytes, want %d; %v", len(got), len(text), err)
	}
}
