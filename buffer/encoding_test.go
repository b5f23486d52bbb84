package buffer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/buffer"
)

// frame returns rows, and one frame of Zstandard with them.
func frame(t *testing.T, n int) (text, stored []byte) {
	t.Helper()
	for i := range n {
		text = fmt.Appendf(text, "\"%d\",\"%x\"\n", i, i*i*i)
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return text, w.EncodeAll(text, nil)
}

// A reader gets a decoder that another one has used, whatever became of that one's slice, and no byte of it.
func TestZstdDecodersAreUsedAgain(t *testing.T) {
	text, stored := frame(t, 50_000)
	damaged := bytes.Clone(stored)
	damaged[len(damaged)/2] ^= 1
	var far bytes.Buffer
	w, err := zstd.NewWriter(&far, zstd.WithWindowSize(32<<20))
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range [][]byte{text[:len(text)/2], text[len(text)/2:]} { // the header of a frame that is flushed has the window
		if _, err := w.Write(half); err != nil || w.Flush() != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for name, c := range map[string]struct {
			stored []byte
			read   int // so many bytes; -1 for all
			fails  bool
		}{
			"whole": {stored, -1, false}, "damaged": {damaged, -1, true}, "cut": {stored[:len(stored)/2], -1, true}, "no frame": {text, -1, true},
			"closed early": {stored, 1000, false}, "not read": {stored, 0, false}, "empty": {nil, -1, false},
			"a larger window than the engine's": {far.Bytes(), -1, false},
		} {
			r, err := buffer.Decode(buffer.Zstd, io.NopCloser(bytes.NewReader(c.stored)))
			if err != nil {
				t.Fatal(err)
			}
			limit := int64(c.read)
			if c.read < 0 {
				limit = int64(len(text)) + 1
			}
			got, err := io.ReadAll(io.LimitReader(r, limit))
			if (err != nil) != c.fails || !c.fails && len(c.stored) > 0 && !bytes.Equal(got, text[:min(limit, int64(len(text)))]) {
				t.Fatalf("%s: %d bytes, %v", name, len(got), err)
			}
			if err := errors.Join(r.Close(), r.Close()); err != nil {
				t.Fatal(err)
			}
			if n, err := r.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, io.EOF) {
				t.Fatalf("%s: a closed reader gives %d bytes, %v", name, n, err)
			}
		}
	}
}

// A reader that is closed while it reads keeps its decoder, and no other reader gets it.
func TestZstdReaderClosedDuringRead(t *testing.T) {
	text, stored := frame(t, 50_000)
	began, end := make(chan struct{}), make(chan struct{})
	noise := readerFunc(func(p []byte) (int, error) {
		select {
		case <-end:
			return 0, io.EOF
		default:
		}
		close(began)
		<-end
		return copy(p, "noise"), nil
	})
	r, err := buffer.Decode(buffer.Zstd, io.NopCloser(io.MultiReader(bytes.NewReader(stored[:len(stored)/2]), noise)))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(r)
		ended <- err
	}()
	<-began
	r.Close()
	second, err := buffer.Decode(buffer.Zstd, io.NopCloser(bytes.NewReader(stored)))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	got := make([]byte, 100)
	if _, err := io.ReadFull(second, got); err != nil {
		t.Fatal(err)
	}
	close(end)
	if err := <-ended; err == nil {
		t.Error("no error from a source of noise")
	}
	rest, err := io.ReadAll(second)
	if got = append(got, rest...); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the second reader: %d bytes, want %d; %v", len(got), len(text), err)
	}
}
