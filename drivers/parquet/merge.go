package parquet

import (
	"context"
	endian "encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"path/filepath"
	"slices"
	"syscall"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// openPart opens a part. A file that is not one is a [driver.Permanent] error.
func openPart(s *parts.Store, path string) (*partFile, io.Closer, error) {
	info, err := s.FS.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.FS.Open(path)
	if err != nil {
		return nil, nil, err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		return nil, nil, errors.Join(errors.ErrUnsupported, f.Close())
	}
	var p *partFile
	err = guard(path, func() (err error) {
		p, err = openFile(at, info.Size())
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return p, f, nil
}

// guard calls a function that reads a part. Every error that does not come from the disk means damage, and so does a panic of the library.
func guard(path string, read func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = parts.Damaged(path, fmt.Errorf("panic: %v", r))
		}
	}()
	err = read()
	var disk syscall.Errno
	if err == nil || errors.As(err, &disk) || driver.IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return parts.Damaged(path, err)
}

// Count implements [parts.Format].
func (format) Count(_ context.Context, store *parts.Store, _ parts.Definition, s parts.Section) (int64, error) {
	p, closer, err := openPart(store, s.Path)
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	switch {
	case s.Length == 0:
		return p.rows(), nil
	case s.Offset+s.Length > p.rows():
		return 0, parts.Damaged(s.Path, fmt.Errorf("it has %d rows, want %d", p.rows(), s.Offset+s.Length))
	}
	return s.Length, nil
}

// source is a part that is merged.
type source struct {
	part   parts.Part
	path   string
	file   *partFile
	closer io.Closer
	places []int // of the merged columns, where -1 means that the part lacks it
}

// merger writes the rows of several parts to one.
type merger struct {
	format
	ctx     context.Context
	store   *parts.Store
	sources []source
	columns []column
	sums    []maphash.Hash // of the values of each column
	rows    int64
}

// Merge implements [parts.Format]. It leaves out parts with a column that the table does not have in this form. The merged part is read again
// and compared before it is used.
func (x format) Merge(ctx context.Context, s *parts.Store, d parts.Definition, dir string, in []parts.Part) (merged parts.Merged, err error) {
	m := &merger{format: x, ctx: ctx, store: s}
	defer func() {
		for _, src := range m.sources {
			_ = src.closer.Close()
		}
	}()
	for _, p := range in {
		if err := m.addSource(dir, d, p); err != nil {
			return merged, err
		}
	}
	if len(m.sources) < 2 {
		return merged, nil
	}
	m.plan(d)
	temp, err := s.StageFile(ctx, parts.MergeID, m.write)
	if err != nil {
		return merged, err
	}
	if err := m.check(temp); err != nil {
		return merged, errors.Join(err, s.FS.Remove(temp))
	}
	merged.Temp = temp
	var at int64
	for _, src := range m.sources {
		files := []parts.Content{{ID: src.part.First, Rows: src.file.rows(), Length: src.file.rows()}}
		if src.part.Merged() {
			if files, err = s.Contents(dir, src.part); err != nil {
				return parts.Merged{}, errors.Join(err, s.FS.Remove(temp))
			}
		}
		end := at
		for _, f := range files {
			f.Offset += at
			end += f.Rows
			merged.Files = append(merged.Files, f)
		}
		if at += src.file.rows(); at != end || src.part.Rows >= 0 && src.part.Rows != src.file.rows() {
			err := fmt.Errorf("it has %d rows, which differs from the record", src.file.rows())
			return parts.Merged{}, errors.Join(parts.Damaged(src.path, err), s.FS.Remove(temp))
		}
		merged.Taken = append(merged.Taken, src.part)
	}
	return merged, nil
}

// addSource opens a part, unless it has other columns than the table, or, from another program, a codec that this package does not write.
func (m *merger) addSource(dir string, d parts.Definition, p parts.Part) error {
	src := source{part: p, path: filepath.Join(dir, p.Path())}
	var err error
	if src.file, src.closer, err = openPart(m.store, src.path); err != nil {
		return err
	}
	fit := src.file.flat && (src.file.ours || src.file.written())
	err = guard(src.path, func() error { // the library panics at some types
		for _, f := range src.file.schema.Fields() {
			i := slices.IndexFunc(d.Columns, func(c datatype.Column) bool { return c.Name == f.Name() })
			fit = fit && i >= 0 && fits(f, d.Columns[i])
		}
		return nil
	})
	if err != nil || !fit {
		return errors.Join(err, src.closer.Close())
	}
	m.sources = append(m.sources, src)
	return nil
}

// fits reports whether a column of a part is one that this package writes for a column of the table.
func fits(f pq.Field, c datatype.Column) bool {
	col := newColumn(c.Name, c, c)
	n := col.node()
	return f.Leaf() && !f.Repeated() && f.Type().Kind() == n.Type().Kind() && f.Type().Length() == n.Type().Length() && logical(f) == logical(n)
}

func logical(n pq.Node) string {
	if l := n.Type().LogicalType(); l != nil {
		return l.String()
	}
	return ""
}

// plan decides which columns the merged part has. It has every column of any source, in the order of the table.
func (m *merger) plan(d parts.Definition) {
	for _, c := range d.Columns {
		col := newColumn(c.Name, c, c)
		col.filtered = m.filters(&col)
		found := false
		for _, src := range m.sources {
			if at := placeOf(src.file, c.Name); at >= 0 {
				found = true
			}
		}
		if !found {
			continue
		}
		m.columns = append(m.columns, col)
		for i := range m.sources {
			m.sources[i].places = append(m.sources[i].places, placeOf(m.sources[i].file, c.Name))
		}
	}
	m.sums = newSums(len(m.columns))
}

func placeOf(f *partFile, name string) int {
	return slices.IndexFunc(f.schema.Fields(), func(f pq.Field) bool { return f.Name() == name })
}

// newSums returns one empty checksum a column.
func newSums(n int) []maphash.Hash {
	sums := make([]maphash.Hash, n)
	for i := range sums {
		sums[i].SetSeed(seed)
	}
	return sums
}

// seed makes the checksums, which live as long as one merge.
var seed = maphash.MakeSeed()

// write writes the rows of all sources.
func (m *merger) write(out io.Writer) error {
	e, s := startEncoder(m.spare), newScratch(m.codec)
	to := newPages(newPart(out, m.columns, s), e)
	err := m.copy(to)
	if err == nil {
		err = to.finish()
	}
	if werr := e.wait(); err == nil {
		err = werr
	}
	s.release()
	return err
}

func (m *merger) copy(to *pages) error {
	var rows, size int64 // of the row group
	for _, src := range m.sources {
		for g := range src.file.meta.RowGroups {
			if err := guard(src.path, func() error { return m.copyGroup(to, src, g) }); err != nil {
				return err
			}
			meta := &src.file.meta.RowGroups[g]
			m.rows += meta.NumRows
			rows += meta.NumRows
			if size += meta.TotalByteSize; rows < m.rowGroup && size < m.groups {
				continue
			}
			rows, size = 0, 0
			if err := to.endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyGroup copies a row group by columns.
func (m *merger) copyGroup(to *pages, src source, g int) error {
	rows := src.file.meta.RowGroups[g].NumRows
	group, err := src.file.group(g)
	if err != nil {
		return err
	}
	for i, at := range src.places {
		write := func(values []pq.Value) error {
			addSum(&m.sums[i], values)
			for _, v := range values {
				m.columns[i].addValue(to.open[i], v)
				if to.open[i].full() {
					if err := to.endPage(i); err != nil {
						return err
					}
				}
			}
			return nil
		}
		var err error
		if at >= 0 {
			err = m.eachValue(src.file, group, g, at, write)
		} else {
			nulls := make([]pq.Value, min(rows, batchRows))
			for left := rows; left > 0 && err == nil; left -= int64(len(nulls)) {
				nulls = nulls[:min(left, int64(len(nulls)))]
				err = write(nulls)
			}
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", m.columns[i].name, err)
		}
	}
	return nil
}

// batchRows is the number of values that are read at once.
const batchRows = 1024

// eachValue calls fn with the values of a column of a row group, in batches. There is one for each row, or an error.
func (m *merger) eachValue(p *partFile, group pq.RowGroup, g, column int, fn func([]pq.Value) error) error {
	if _, err := p.checkChunk(g, column, 0, math.MaxInt64); err != nil {
		return err
	}
	pages := group.ColumnChunks()[column].Pages()
	defer pages.Close()
	values := make([]pq.Value, batchRows)
	left := group.NumRows()
	for {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) && left == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		err = eachInPage(page, values, func(values []pq.Value) error {
			left -= int64(len(values))
			return fn(values)
		})
		pq.Release(page)
		if err == nil && left < 0 {
			err = fmt.Errorf("%d values in %d rows", group.NumRows()-left, group.NumRows())
		}
		if err != nil {
			return err
		}
	}
}

func eachInPage(page pq.Page, values []pq.Value, fn func([]pq.Value) error) error {
	for in := page.Values(); ; {
		n, err := in.ReadValues(values)
		if n > 0 {
			if err := fn(values[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// addSum adds values to the checksum of a column, NULL apart from the empty text.
func addSum(sum *maphash.Hash, values []pq.Value) {
	var b [8]byte
	for _, v := range values {
		switch {
		case v.IsNull():
			_ = sum.WriteByte(0)
		case v.Kind() == pq.ByteArray, v.Kind() == pq.FixedLenByteArray:
			text := v.ByteArray()
			endian.LittleEndian.PutUint32(b[1:], uint32(len(text)))
			b[0] = 1
			_, _ = sum.Write(b[:5])
			_, _ = sum.Write(text)
		default:
			_ = sum.WriteByte(1)
			_, _ = sum.Write(v.AppendBytes(b[:0]))
		}
	}
}

// check reads the merged part from the disk and compares it with the rows of the sources.
func (m *merger) check(path string) error {
	p, closer, err := openPart(m.store, path)
	if err != nil {
		return err
	}
	defer closer.Close()
	if p.rows() != m.rows || len(p.schema.Fields()) != len(m.columns) {
		return fmt.Errorf("the merged part has %d rows of %d columns, want %d of %d", p.rows(), len(p.schema.Fields()), m.rows, len(m.columns))
	}
	sums := newSums(len(m.columns))
	err = guard(path, func() error {
		for g := range p.meta.RowGroups {
			group, err := p.group(g)
			if err != nil {
				return err
			}
			for i := range m.columns {
				if err := m.eachValue(p, group, g, i, func(values []pq.Value) error { addSum(&sums[i], values); return nil }); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for i := range sums {
		if err == nil && sums[i].Sum64() != m.sums[i].Sum64() {
			err = fmt.Errorf("the merged part has other values in the column %q than its sources", m.columns[i].name)
		}
	}
	return err
}
