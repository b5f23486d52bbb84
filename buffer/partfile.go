package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
)

// partOf returns the file that has the rows of a part of f.
func partOf(f *driver.File, p *format.Part) *driver.File {
	out := &driver.File{ID: p.ID, SinkID: f.SinkID, Table: f.Table, Progress: f.Progress, Copied: f.Copied}
	views := map[string]*rowsView{}
	begin := int64(0)
	for i, obj := range f.Slices {
		v := &rowsView{obj: obj, from: max(p.From-begin, 0), to: min(p.To-begin, obj.Rows)}
		for s := range p.Skip.All() {
			if at := s.Row - begin; at >= v.from && at < v.to {
				v.skip = append(v.skip, at)
			}
		}
		begin += obj.Rows
		rows := v.to - v.from - int64(len(v.skip))
		if rows <= 0 {
			continue
		}
		o := driver.Object{
			ID: fmt.Sprintf("%s-%d", p.ID, i), FileID: p.ID, SinkID: f.SinkID, Encoding: driver.None, Rows: rows, RawBytes: obj.RawBytes,
		}
		views[o.ID] = v
		out.Slices = append(out.Slices, o)
		out.Rows += rows
		out.RawBytes += o.RawBytes
	}
	out.OpenSlice = func(ctx context.Context, o driver.Object) (io.ReadCloser, error) {
		v := views[o.ID]
		if v == nil {
			return nil, fmt.Errorf("buffer: file %s has no slice %q", p.ID, o.ID)
		}
		return v.open(ctx, f)
	}
	return out
}

// rowsOf returns rows of a file, by their ascending numbers, at least one, and no further ones once they have most bytes.
func rowsOf(ctx context.Context, f *driver.File, numbers []int64, most int) (rows [][]byte, err error) {
	size := 0
	begin := int64(0)
	for _, obj := range f.Slices {
		if len(numbers) == 0 || size >= most {
			return rows, nil
		}
		end := begin + obj.Rows
		if numbers[0] < end {
			n, _ := slices.BinarySearch(numbers, end)
			v := &rowsView{obj: obj, from: numbers[0] - begin, to: numbers[n-1] - begin + 1}
			err := v.each(ctx, f, func(at int64, row []byte) error {
				if at+begin != numbers[0] {
					return nil
				}
				rows, numbers = append(rows, slices.Clone(row)), numbers[1:]
				if size += len(row); size >= most {
					return errEnough
				}
				return nil
			})
			if err != nil && !errors.Is(err, errEnough) {
				return nil, err
			}
		}
		begin = end
	}
	if len(numbers) > 0 && size < most {
		return nil, fmt.Errorf("buffer: file %s has no row %d", f.ID, numbers[0])
	}
	return rows, nil
}

// errEnough ends a reading early.
var errEnough = errors.New("enough rows")

// rowsView are some rows of a slice.
type rowsView struct {
	obj      driver.Object
	from, to int64
	skip     []int64 // ascending
}

// open returns the rows as plain CSV.
func (v *rowsView) open(ctx context.Context, f *driver.File) (io.ReadCloser, error) {
	src, err := f.OpenRows(ctx, v.obj)
	if err != nil {
		return nil, err
	}
	return &viewReader{v: v, src: src, in: driver.NewRowReader(src), skip: v.skip}, nil
}

// each calls fn with each row.
func (v *rowsView) each(ctx context.Context, f *driver.File, fn func(at int64, row []byte) error) error {
	src, err := f.OpenRows(ctx, v.obj)
	if err != nil {
		return err
	}
	defer src.Close()
	r := &viewReader{v: v, src: src, in: driver.NewRowReader(src), skip: v.skip}
	for {
		at, row, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil // next has read the slice to its end
		case err == nil && ctx.Err() != nil:
			err = ctx.Err()
		case err == nil:
			if err = fn(at, row); errors.Is(err, errEnough) { // the checksum of the slice covers all of its bytes
				if _, failed := io.Copy(io.Discard, src); failed != nil {
					return failed
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

// viewReader reads the rows of a view.
type viewReader struct {
	v    *rowsView
	src  io.ReadCloser
	in   *driver.RowReader
	at   int64   // the next row of the slice
	skip []int64 // from there on
	rest []byte  // of the last row
	err  error
}

// next returns a row with its end, which is valid until the next call, and its number in the slice. The error after the last row is io.EOF.
func (r *viewReader) next() (at int64, row []byte, err error) {
	for r.at < r.v.to {
		row, ok := r.in.NextStored()
		if !ok {
			if err := r.in.Err(); err != nil {
				return 0, nil, err
			}
			return 0, nil, fmt.Errorf("slice %s: staging has %d rows, want %d", r.v.obj.ID, r.at, r.v.obj.Rows)
		}
		at := r.at
		r.at++
		if len(r.skip) > 0 && r.skip[0] == at {
			r.skip = r.skip[1:]
			continue
		}
		if at >= r.v.from {
			return at, row, nil
		}
	}
	if r.v.to == r.v.obj.Rows {
		if _, more := r.in.NextStored(); more {
			return 0, nil, fmt.Errorf("slice %s: staging has more than %d rows", r.v.obj.ID, r.v.obj.Rows)
		}
	}
	if err := r.in.Err(); err != nil {
		return 0, nil, err
	}
	// The checksum of the slice covers all of its bytes.
	if _, err := io.Copy(io.Discard, r.src); err != nil {
		return 0, nil, err
	}
	return 0, nil, io.EOF
}

// Read implements io.Reader.
func (r *viewReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		_, r.rest, r.err = r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *viewReader) Close() error { return r.src.Close() }
