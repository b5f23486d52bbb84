package driver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
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

// A slice is read as far as it is whole, whoever wrote it.
func TestDecodeZstd(t *testing.T) {
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
	for name, c := range map[string]struct {
		stored []byte
		read   int // so many bytes; -1 for all
		fails  bool
	}{
		"whole": {stored, -1, false}, "damaged": {damaged, -1, true}, "cut": {stored[:len(stored)/2], -1, true}, "no frame": {text, -1, true},
		"closed early": {stored, 1000, false}, "not read": {stored, 0, false}, "empty": {nil, -1, false},
		"a larger window than the engine's": {far.Bytes(), -1, false},
	} {
		r, err := driver.Decode(driver.Zstd, io.NopCloser(bytes.NewReader(c.stored)))
		if err != nil {
			t.Fatal(err)
		}
		limit := int64(c.read)
		if c.read < 0 {
			limit = int64(len(text)) + 1
		}
		got, err := io.ReadAll(io.LimitReader(r, limit))
		if (err != nil) != c.fails || !c.fails && len(c.stored) > 0 && !bytes.Equal(got, text[:min(limit, int64(len(text)))]) {
			t.Fatalf("%s: got %d bytes, %v, want the begin of the text, an error: %t", name, len(got), err, c.fails)
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Decoders have channels, so one that was made in a bubble of synctest is of no use outside: tests of programs with an engine would end.
func TestDecodersAreNotSharedBetweenBubbles(t *testing.T) {
	text, stored := frame(t, 50_000)
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			r, err := driver.Decode(driver.Zstd, io.NopCloser(bytes.NewReader(stored)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, text) {
				t.Errorf("got %d bytes, %v, want the text of %d, no error", len(got), err, len(text))
			}
		})
	}
}
