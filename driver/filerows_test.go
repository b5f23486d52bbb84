package driver_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/seedtest"
)

// slicesOf returns a file with plain slices of two columns.
func slicesOf(texts ...string) *driver.File {
	f := &driver.File{ID: "f", Table: driver.Table{ID: "t", Columns: datatype.UntypedColumns("a", "b")}}
	for i, text := range texts {
		f.Slices = append(f.Slices, driver.Object{ID: fmt.Sprint("s", i), Rows: int64(strings.Count(text, "\n"))})
	}
	f.OpenSlice = func(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
		i := slices.IndexFunc(f.Slices, func(o driver.Object) bool { return o.ID == obj.ID })
		return io.NopCloser(strings.NewReader(texts[i])), nil
	}
	return f
}

// allRows returns "row: cells" for each row.
func allRows(ctx context.Context, f *driver.File) (got []string, err error) {
	rows := f.ReadRows(ctx)
	for rows.Next() {
		got = append(got, fmt.Sprintf("%d: %s", rows.Row(), bytes.Join(rows.Cells(), []byte("|"))))
	}
	return got, errors.Join(rows.Err(), rows.Close())
}

func TestFileRows(t *testing.T) {
	got, err := allRows(t.Context(), slicesOf("\"a\",\"b\"\n\"c\",\n", "\"d\",\"e\"\n"))
	if want := []string{"0: a|b", "1: c|", "2: d|e"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	cut := slicesOf("\"a\",\"b\"\n", "\"c\",\"d\"\n\"e\",\"f\"\n")
	cut.Slices[1].Rows = 3
	for want, f := range map[string]*driver.File{
		"slice s1: staging has 2 rows, want 3":                     cut,
		"slice s0: row 1 has 3 cells, the table has 2 columns":     slicesOf("\"a\",\"b\"\n\"c\",\"d\",\"e\"\n"),
		"slice s0: row 0: the data ends within the row: these are": slicesOf("\"a\",\"b"),
	} {
		if _, err := allRows(t.Context(), f); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// tracked counts the readers that are open.
type tracked struct {
	io.Reader
	open *int
}

func (r tracked) Close() error { *r.open--; return nil }

func TestFileRowsClosesSlicesAndEndsWithItsContext(t *testing.T) {
	for _, fault := range []error{nil, errors.New("broken")} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		open, n := 0, 0
		f := slicesOf("", "")
		f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
			open++
			return tracked{readerFunc(func(p []byte) (int, error) {
				if n++; n == 3 && fault != nil {
					return 0, fault
				}
				return copy(p, "\"a\",\"b\"\n"), nil
			}), &open}, nil
		}
		rows := f.ReadRows(ctx)
		for rows.Next() {
			if n == 2 && fault == nil {
				cancel()
			}
		}
		want := fault
		if want == nil {
			want = context.Canceled
		}
		if !errors.Is(rows.Err(), want) || open != 0 || rows.Next() {
			t.Errorf("got %v with %d readers open, want %v", rows.Err(), open, want)
		}
		rows = f.ReadRows(t.Context())
		if n = -1 << 30; !rows.Next() || rows.Close() != nil || rows.Close() != nil || open != 0 {
			t.Errorf("closed early: %v with %d readers open", rows.Err(), open)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) { return r(p) }

// large returns a file with one slice of each encoding, which is large enough for a separate goroutine, and its rows.
func large(t *testing.T) (f *driver.File, rows int) {
	t.Helper()
	const each = 5000
	f = slicesOf("", "", "")
	stored := make([]bytes.Buffer, 3)
	zipped, err := gzip.NewWriterLevel(&stored[1], gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	small, err := zstd.NewWriter(&stored[2], zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	writers := []io.WriteCloser{nopWriter{&stored[0]}, zipped, small}
	for i, w := range writers {
		var plain []byte
		for n := range each {
			plain = fmt.Appendf(plain, "\"%d\",\"a \"\"%x\"\"\"\n", i*each+n, sha512.Sum512([]byte{byte(n), byte(n >> 8)}))
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f.Slices[i].Encoding, f.Slices[i].Rows, f.Slices[i].RawBytes = driver.Encoding(i), each, int64(len(plain))
	}
	f.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(stored[obj.Encoding].Bytes())), ctx.Err()
	}
	return f, len(writers) * each
}

type nopWriter struct{ io.Writer }

func (nopWriter) Close() error { return nil }

func TestFileRowsDecodesLargeSlicesAhead(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // with one nothing is decoded ahead
	f, want := large(t)
	rows := f.ReadRows(t.Context())
	for n := range want {
		if !rows.Next() || string(rows.Cells()[0]) != fmt.Sprint(n) || rows.Row() != int64(n) {
			t.Fatalf("row %d: %q, %v", n, rows.Cells(), rows.Err())
		}
	}
	if rows.Next() || rows.Err() != nil {
		t.Errorf("got %v after the last row, want no row and no error", rows.Err())
	}
	all, open := f.Slices, f.OpenSlice
	for _, obj := range all[1:] {
		f.Slices = []driver.Object{obj}
		// Close ends a read of a staging that waits, and the goroutine with it.
		closed, opened := false, context.Context(nil)
		f.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
			opened = ctx
			stored, err := open(ctx, obj)
			waits := readerFunc(func([]byte) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
			return closeFunc{io.MultiReader(io.LimitReader(stored, 300<<10), waits), func() { closed = true }}, err
		}
		rows = f.ReadRows(t.Context())
		if !rows.Next() || rows.Close() != nil || !closed || opened.Err() == nil {
			t.Errorf("%v: closed early: %v, the slice is closed: %v", obj.Encoding, rows.Err(), closed)
		}
		// A slice that breaks off fails after its last row, like one that is not decoded ahead.
		f.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
			stored, err := open(ctx, obj)
			return io.NopCloser(io.LimitReader(stored, 300<<10)), err
		}
		rows = f.ReadRows(t.Context())
		for rows.Next() {
		}
		if !errors.Is(rows.Err(), io.ErrUnexpectedEOF) || rows.Row() < 500 {
			t.Errorf("%v: cut off after row %d: got %v, want %v after at least 500 rows", obj.Encoding, rows.Row(), rows.Err(), io.ErrUnexpectedEOF)
		}
	}
}

// A driver takes stored rows and cells in turn, over the ends of slices. Rows keep their numbers, and missing ones are noticed.
func TestFileRowsGivesStoredRows(t *testing.T) {
	rng := seedtest.Rand(t)
	const each = 4000
	f := slicesOf()
	for s := range 3 {
		var text strings.Builder
		for i := range each {
			fmt.Fprintf(&text, "\"%d\",\"%s\"\n", s*each+i, strings.Repeat("x", rng.IntN(100)))
		}
		f.Slices = append(f.Slices, driver.Object{ID: text.String(), Rows: each})
	}
	f.OpenSlice = func(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(obj.ID)), nil
	}
	read := func() (numbers, stored int, err error) {
		rows := f.ReadRows(t.Context())
		defer rows.Close()
		for {
			for left := rng.IntN(600); left > 0; left-- {
				row, _, whole := strings.Cut(string(rows.Buffered()), "\n")
				if !whole {
					break
				}
				if number, _, _ := strings.Cut(row, ","); number != strconv.Quote(strconv.Itoa(numbers)) {
					t.Fatalf("row %d is %q", numbers, row)
				}
				rows.Skip(len(row)+1, 1)
				if rows.Row() != int64(numbers) || len(rows.Cells()) > 0 {
					t.Fatalf("row %d has the number %d and cells %q", numbers, rows.Row(), rows.Cells())
				}
				numbers, stored = numbers+1, stored+1
			}
			if !rows.Next() {
				if rows.Buffered() != nil {
					t.Errorf("got %d bytes after the end, want none", len(rows.Buffered()))
				}
				return numbers, stored, rows.Err()
			}
			if string(rows.Cells()[0]) != strconv.Itoa(numbers) || rows.Row() != int64(numbers) {
				t.Fatalf("row %d is %q with the number %d", numbers, rows.Cells(), rows.Row())
			}
			numbers++
		}
	}
	if n, stored, err := read(); n != 3*each || stored < n/4 || err != nil {
		t.Errorf("got %d rows, %d of them as stored, %v, want %d and at least a quarter", n, stored, err, 3*each)
	}
	f.Slices[1].Rows++
	if n, _, err := read(); n != 2*each || err == nil {
		t.Errorf("%d rows and %v, although a row is missing in the second slice", n, err)
	}
	rows := f.ReadRows(t.Context())
	rows.Next()
	rows.Skip(len(rows.Buffered())+1, 1)
	if rows.Next() || rows.Err() == nil {
		t.Error("more is taken than there was, without an error")
	}
	rows.Close()
	if len(rows.Buffered()) > 0 {
		t.Error("a closed slice has bytes")
	}
}

type closeFunc struct {
	io.Reader
	close func()
}

func (r closeFunc) Close() error { r.close(); return nil }

func TestFileRowsDoesNotAllocatePerRow(t *testing.T) {
	var data bytes.Buffer
	zw := gzip.NewWriter(&data)
	for range 3000 {
		fmt.Fprintf(zw, "\"one\",\"t\"\"wo\"\n")
	}
	zw.Close()
	f := slicesOf("")
	f.Slices[0].Encoding = driver.Gzip
	f.OpenSlice = func(context.Context, driver.Object) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data.Bytes())), nil
	}
	rows := f.ReadRows(t.Context())
	defer rows.Close()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	if n := testing.AllocsPerRun(2000, func() {
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
	}); n != 0 {
		t.Errorf("got %v allocations a row, want 0", n)
	}
}
