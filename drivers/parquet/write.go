package parquet

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go/compress"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

const extension = ".parquet"

// format is the [parts.Format] of Parquet.
type format struct {
	rowGroup int64
	groups   int64 // bounds the plain bytes of all open row groups, which end at the bound
	codec    compress.Codec
	bloom    []string // the columns with filters
	spare    *sparePages
}

// Name implements [parts.Format].
func (format) Name() string { return "parquet" }

// Extensions implements [parts.Format].
func (format) Extensions() []string { return []string{extension} }

// Empty implements [parts.EmptyFormat].
func (x format) Empty(out io.Writer, d parts.Definition) error {
	names := make([]string, len(d.Columns))
	for i, c := range d.Columns {
		names[i] = c.Name
	}
	columns := fileColumns(d, d.Columns, names)
	for i := range columns {
		columns[i].optional = !columns[i].notNull
	}
	s := newScratch(x.codec)
	defer s.release()
	return newPart(out, columns, s).close()
}

// fileWriter writes the rows of one file to a temporary part a day. One goroutine reads and parses the rows, another encodes and
// writes pages.
type fileWriter struct {
	format
	ctx     context.Context
	store   *parts.Store
	f       *driver.File
	d       parts.Definition
	columns []column
	day     int // the column of the day, or -1 if there is none

	parts    map[string]*partWriter // by folder
	last     *partWriter            // of the last row
	lastDay  string                 // its first bytes
	buffered int64                  // bytes in open row groups
	refused  *driver.RowsError
	encoder  *encoder
	scratch  *scratch // the encoder's
}

// Stage implements [parts.Format].
func (x format) Stage(ctx context.Context, s *parts.Store, d parts.Definition, f *driver.File) (map[string]string, error) {
	names := d.NamesFor(f.Table)
	w := &fileWriter{
		format: x, ctx: ctx, store: s, f: f, d: d, columns: fileColumns(d, f.Table.Columns, names), day: -1,
		parts: make(map[string]*partWriter), encoder: startEncoder(x.spare), scratch: newScratch(x.codec),
	}
	if d.Partition != "" {
		w.day = slices.Index(names, d.Partition)
	}
	for i := range w.columns {
		w.columns[i].optional = !w.columns[i].notNull
		w.columns[i].filtered = x.filters(&w.columns[i])
	}
	err := w.write()
	if werr := w.encoder.wait(); err == nil {
		err = werr
	}
	w.scratch.release()
	if err != nil {
		for _, p := range w.parts {
			p.out.abandon()
		}
		return nil, err
	}
	staged := make(map[string]string)
	for folder, p := range w.parts {
		staged[w.d.PartPath(folder, w.f.ID, p.rows, extension)] = p.out.temp
	}
	return staged, nil
}

func (w *fileWriter) write() error {
	rows := w.f.ReadRows(w.ctx)
	defer rows.Close()
	for {
		if err := w.addStored(rows); err != nil {
			return err
		}
		if !rows.Next() {
			break
		}
		if err := w.add(rows); err != nil {
			return err
		}
		if w.refused != nil && len(w.refused.Rows) == driver.MaxRowErrors {
			return w.refused
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if w.refused != nil {
		w.refused.Complete = true
		return w.refused
	}
	for _, folder := range slices.Sorted(maps.Keys(w.parts)) {
		if err := w.parts[folder].finish(); err != nil {
			return err
		}
	}
	return nil
}

// add converts a row.
func (w *fileWriter) add(rows *driver.FileRows) error {
	cells := rows.Cells()
	p, ok := w.part(cells)
	if !ok {
		w.refuse(rows.Row(), w.d.Partition, errCell)
		return nil
	}
	size := 0
	for i := range w.columns {
		in := p.open[i]
		if err := w.columns[i].addCell(in, cells[i]); err != nil {
			w.refuse(rows.Row(), w.columns[i].name, err)
		}
		size += 8 + len(cells[i])
		if w.refused != nil {
			in.reset()
		} else if in.full() {
			if err := p.endPage(i); err != nil {
				return err
			}
		}
	}
	return w.added(p, size)
}

// added counts a row of a part, and ends row groups that are large enough.
func (w *fileWriter) added(p *partWriter, size int) error {
	p.rows++
	p.group++
	w.buffered += int64(size)
	switch p.buffered += int64(size); {
	case p.group == w.rowGroup:
		w.buffered -= p.buffered
		return p.endGroup()
	case w.buffered >= w.groups:
		w.buffered = 0
		for _, folder := range slices.Sorted(maps.Keys(w.parts)) {
			if err := w.parts[folder].endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuse notes the first bad cell of a row. Nothing is stored then.
func (w *fileWriter) refuse(row int64, column string, err error) {
	if w.refused == nil {
		w.refused = &driver.RowsError{}
	}
	if n := len(w.refused.Rows); n > 0 && w.refused.Rows[n-1].Row == row {
		return
	}
	reason, message, _ := strings.Cut(err.Error(), ": ")
	w.refused.Add(driver.RowError{Row: row, Column: column, Reason: reason, Message: message})
}

// part returns the part of a row. ok is false if the row has no day.
func (w *fileWriter) part(cells [][]byte) (p *partWriter, ok bool) {
	folder := ""
	if w.d.Partition != "" {
		folder = parts.NoDay
	} else if w.last != nil {
		return w.last, true
	}
	if w.day >= 0 && cells[w.day] != nil {
		cell := cells[w.day]
		if n := len(time.DateOnly); len(cell) >= n && string(cell[:n]) == w.lastDay {
			return w.last, true
		}
		if folder, ok = parts.DayFolder(cell); !ok {
			return nil, false
		}
	}
	p = w.parts[folder]
	if p == nil {
		out := &tempFile{ctx: w.ctx, store: w.store, id: w.f.ID}
		p = &partWriter{pages: newPages(newPart(out, w.columns, w.scratch), w.encoder), out: out}
		w.parts[folder] = p
	}
	w.last, w.lastDay = p, strings.TrimPrefix(folder, parts.DayPrefix)
	return p, true
}

// partWriter is a part of the file. Its rows go to pages. The fields part and out are the encoder's.
type partWriter struct {
	*pages
	out      *tempFile
	rows     int64
	group    int64 // rows in the row group that is open
	buffered int64 // their bytes
}

// endGroup ends the row group.
func (p *partWriter) endGroup() error {
	if p.group == 0 {
		return nil
	}
	p.group, p.buffered = 0, 0
	if err := p.pages.endGroup(); err != nil {
		return err
	}
	return p.encoder.do(func() error { return p.out.close(false) })
}

// finish ends the part.
func (p *partWriter) finish() error {
	if err := p.pages.finish(); err != nil {
		return err
	}
	return p.encoder.do(func() error { return p.out.close(true) })
}
