package driver

import (
	"context"
	"fmt"
	"io"
	"runtime"
)

// FileRows reads all rows of a file for a driver, in the order of its slices, and checks that each slice has as many rows as its
// Object says, and each row as many cells as the table has columns. See [File.ReadRows].
type FileRows struct {
	ctx   context.Context
	file  *File
	in    *RowReader
	src   io.ReadCloser // of the slice that is read, nil before and after
	slice int           // the next one
	row   int64
	err   error

	memory *[aheadBlocks][aheadBytes]byte // of an [aheadReader], nil before the first
}

// ReadRows returns a reader of the rows of f. It allocates per slice, not per row, and ends soon after ctx. Where there are
// two processors, it decodes a large compressed slice in a separate goroutine, with a context that ends at Close. It is not safe for concurrent use.
//
//	rows := f.ReadRows(ctx)
//	defer rows.Close()
//	for rows.Next() {
//		use(rows.Cells())
//	}
//	if err := rows.Err(); err != nil {
//		return err // store nothing
//	}
func (f *File) ReadRows(ctx context.Context) *FileRows {
	return &FileRows{ctx: ctx, file: f, in: NewRowReader(nil), row: -1}
}

// Next reads the next row and reports whether there is one. It returns false at the end and with an error, see [FileRows.Err].
func (r *FileRows) Next() bool {
	for r.err == nil {
		switch {
		case r.src == nil && !r.open():
			return false
		case !r.in.Next():
			r.endSlice()
		case len(r.in.cells) != len(r.file.Table.Columns):
			r.fail(fmt.Errorf("row %d has %d cells, the table has %d columns", r.in.rows-1, len(r.in.cells), len(r.file.Table.Columns)))
		default:
			r.row++
			return true
		}
	}
	return false
}

// open opens the next slice. It returns false if there is none or it fails.
func (r *FileRows) open() bool {
	if r.err = r.ctx.Err(); r.err != nil || r.slice == len(r.file.Slices) {
		return false
	}
	r.slice++
	var src io.ReadCloser
	var err error
	if obj := r.object(); obj.Encoding != None && obj.RawBytes >= aheadFrom && runtime.GOMAXPROCS(0) > 1 {
		src, err = r.openAhead(obj)
	} else {
		src, err = r.file.OpenRows(r.ctx, obj)
	}
	if err != nil {
		r.fail(err)
		return false
	}
	r.src = src
	r.in.reset((*pacedReader)(r))
	return true
}

// endSlice closes a slice that has no further row.
func (r *FileRows) endSlice() {
	err := r.in.Err()
	if err == nil && r.in.rows != r.object().Rows {
		err = fmt.Errorf("staging has %d rows, want %d", r.in.rows, r.object().Rows)
	}
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	r.fail(err)
}

func (r *FileRows) object() Object { return r.file.Slices[r.slice-1] }

func (r *FileRows) fail(err error) {
	if err != nil {
		r.err = fmt.Errorf("slice %s: %w", r.object().ID, err)
	}
}

// pacedReader reads the slice for the RowReader, and looks at ctx before each block.
type pacedReader FileRows

func (r *pacedReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.src.Read(p)
}

// Cells returns the cells of the row. A nil cell stands for NULL. They are valid until the next call of Next, and the caller may modify
// them.
func (r *FileRows) Cells() [][]byte { return r.in.cells }

// Buffered returns rows after the last one as they are stored, as far as they are in memory: CSV as [File.OpenRows] gives it, which may end
// within a row. A driver that can parse rows itself, at less cost than all cells, tells [FileRows.Skip] which ones it has taken. It leaves the
// rest to Next, for example a row that is cut or whatever it does not expect. There may be no bytes, even before the end of the file. They are valid
// until the next call of Next or Close, and the caller must not modify them.
func (r *FileRows) Buffered() []byte {
	if r.src == nil || r.err != nil {
		return nil
	}
	return r.in.buffered()
}

// Skip takes the first rows of [FileRows.Buffered], which have so many bytes with their ends, and counts them. The caller has checked that each
// has as many cells as the table has columns. Afterwards Cells returns nothing until the next call of Next.
func (r *FileRows) Skip(bytes int, rows int64) {
	r.in.skip(bytes, rows)
	r.row += rows
}

// Row returns the index of the row in the file, from 0, as a [RowError] names it.
func (r *FileRows) Row() int64 { return r.row }

// Err returns why Next has returned false, or nil at the end of the file.
func (r *FileRows) Err() error { return r.err }

// Close closes the slice that is being read. A driver that stops before the end must call it. It may be repeated.
func (r *FileRows) Close() error {
	if r.src == nil {
		return nil
	}
	err := r.src.Close()
	r.src = nil
	return err
}
