package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// readAll returns the first cells of a slice.
func readAll(t *testing.T, b *buffer.Buffer, slice string) (ids []string, err error) {
	t.Helper()
	err = b.ReadSlice(t.Context(), slice, func(cells [][]byte) error {
		ids = append(ids, string(cells[0]))
		return nil
	})
	return ids, err
}

// A slice can be read from its first row until its file ends, wherever it is.
func TestReadSliceInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		var uploads, imports atomic.Bool // let through
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpPut && !uploads.Load() || c.Op == buffertest.OpImport && !imports.Load() {
				return errors.New("not yet")
			}
			return nil
		}
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Interval = 10 * time.Second })
		put(t, b, s, 0, 3)
		put(t, b, s, 3, 4)
		id := b.Sink("a").Slices()[0].ID
		want := []string{"0", "1", "2", "3"}
		for _, state := range []buffer.SliceState{buffer.SliceWriting, buffer.SliceUploading, buffer.SliceUploaded} {
			list := b.Sink("a").Slices()
			if len(list) != 1 || list[0].State != state || list[0].Level.Rows != 4 || list[0].FileID != statsOf(b.Sink("a").Stats()).Files[0].ID {
				t.Fatalf("slices %+v, want one that is %s", list, state)
			}
			if got, err := readAll(t, b, id); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: got %q, %v, want no error and slices.Equal(got, want)", state, got, err)
			}
			if state == buffer.SliceUploading {
				uploads.Store(true)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		imports.Store(true)
		must(t, b.Sink("a").Flush(t.Context()))
		synctest.Wait()
		if got, err := readAll(t, b, id); !errors.Is(err, buffer.ErrUnknownSlice) || len(got) > 0 {
			t.Errorf("when its file has ended: %q, %v", got, err)
		}
		if list := append(b.Sink("a").Slices(), b.Sink("other").Slices()...); len(list) > 0 {
			t.Errorf("slices %+v are left", list)
		}
	})
}

func statsOf(st buffer.SinkStats, _ bool) buffer.SinkStats { return st }

// What ends the reading comes back, and nothing is read afterwards.
func TestReadSliceEnds(t *testing.T) {
	mem := buffertest.NewMemory()
	b := openAt(t, t.TempDir(), localdisk.On(diskOptions(mem), disktest.New(t)))
	put(t, b, define(t, b, "a"), 0, 3)
	id := b.Sink("a").Slices()[0].ID
	enough, calls := errors.New("enough"), 0
	fn := func([][]byte) error { calls++; return enough }
	if err := b.ReadSlice(t.Context(), id, fn); !errors.Is(err, enough) || calls != 1 {
		t.Errorf("got %v after %d calls, want %v after 1", err, calls, enough)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := b.ReadSlice(ctx, id, fn); !errors.Is(err, enough) || calls != 1 {
		t.Errorf("with a context that has ended: %v after %d calls", err, calls)
	}
	if err := b.ReadSlice(t.Context(), "other", fn); !errors.Is(err, buffer.ErrUnknownSlice) {
		t.Errorf("of no slice: %v", err)
	}
	closeBuffer(t, b)
	if err := b.ReadSlice(t.Context(), id, fn); !errors.Is(err, buffer.ErrClosed) || calls != 1 {
		t.Errorf("of a closed buffer: %v after %d calls", err, calls)
	}
}

// Rows that move on while they are read are given once, or not at all because their file has ended.
func TestReadSliceOfASliceThatMoves(t *testing.T) {
	b := open(t, memoryOptions(t, buffertest.NewMemory()))
	s := define(t, b, "a")
	for i := range 100 {
		put(t, b, s, 0, 3)
		id := b.Sink("a").Slices()[0].ID
		flushed := make(chan error, 1)
		go func() { flushed <- b.Sink("a").Flush(t.Context()) }()
		for {
			got, err := readAll(t, b, id)
			if errors.Is(err, buffer.ErrUnknownSlice) && (len(got) == 0 || strings.HasPrefix("0 1 2", strings.Join(got, " "))) {
				break
			}
			if err != nil || fmt.Sprint(got) != "[0 1 2]" {
				t.Fatalf("slice %d: rows %q, %v", i, got, err)
			}
		}
		must(t, <-flushed)
	}
}

// The object of a slice may be deleted, because its file has been imported, just before it is read.
func TestReadSliceThatHasJustEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(t, mem))
		var held, reading atomic.Bool
		held.Store(true)
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			switch {
			case c.Op == buffertest.OpImport && held.Load():
				return errors.New("not yet")
			case c.Op == buffertest.OpOpen && reading.Swap(false):
				held.Store(false)
				if err := b.Sink("a").Flush(t.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
			return nil
		}
		put(t, b, define(t, b, "a"), 0, 3)
		id := b.Sink("a").Slices()[0].ID
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		reading.Store(true)
		if got, err := readAll(t, b, id); !errors.Is(err, buffer.ErrUnknownSlice) || len(got) > 0 {
			t.Errorf("got %q, %v, want errors.Is(err, buffer.ErrUnknownSlice) and len(got) <= 0", got, err)
		}
	})
}
