package dir

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/driverkit/parts"
)

// splitBuffer bounds the bytes in memory while the rows of a file are split by day.
const splitBuffer = 16 << 20

// splitter writes the rows of one file to a temporary file a day.
type splitter struct {
	csvFormat
	s        *parts.Store
	d        parts.Definition
	ctx      context.Context
	f        *driver.File
	header   []byte
	column   int // of the day, negative if the file does not have it
	days     map[string]*day
	buffered int
	row      int64 // in the file
	refused  driver.RowsError
}

type day struct {
	temp string
	rows int64
	wait bytes.Buffer // rows that are not in temp yet
}

// split writes the rows of a file to temporary files, by the path of their part in the table.
func (c csvFormat) split(ctx context.Context, store *parts.Store, d parts.Definition, f *driver.File) (map[string]string, error) {
	names := d.NamesFor(f.Table)
	s := &splitter{csvFormat: c, s: store, d: d, ctx: ctx, f: f, column: slices.Index(names, d.Partition), days: make(map[string]*day)}
	if !d.NoHeader {
		s.header = headerLine(names)
	}
	staged, err := s.splitFile()
	if err != nil {
		for _, d := range s.days {
			if d.temp != "" {
				_ = store.FS.Remove(d.temp) // if it stays, the sweep removes it
			}
		}
	}
	return staged, err
}

func (s *splitter) splitFile() (map[string]string, error) {
	for _, obj := range s.f.Slices {
		if err := s.slice(obj); err != nil {
			return nil, err
		}
	}
	if len(s.refused.Rows) > 0 {
		s.refused.Complete = true
		return nil, &s.refused
	}
	staged := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(s.days)) {
		d := s.days[name]
		if err := s.flush(d, true); err != nil {
			return nil, err
		}
		staged[s.d.PartPath(name, s.f.ID, d.rows, s.extension())] = d.temp
	}
	return staged, nil
}

func (s *splitter) slice(obj driver.Object) (err error) {
	rc, err := s.f.OpenRows(s.ctx, obj)
	if err != nil {
		return fmt.Errorf("open slice %s: %w", obj.ID, err)
	}
	defer func() {
		if cerr := rc.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("slice %s: %w", obj.ID, err)
		}
	}()
	check := rowChecker{columns: len(s.f.Table.Columns)}
	in := bufio.NewReaderSize(rc, 128<<10)
	for row := []byte(nil); ; {
		if row, err = readRow(in, row[:0]); err == io.EOF { //nolint:errorlint // as bufio gives it
			return check.endOf(obj)
		}
		if err == nil {
			_, err = check.Write(row)
		}
		if err == nil {
			err = s.ctx.Err()
		}
		if err != nil {
			return err
		}
		folder := parts.NoDay
		if s.column >= 0 {
			var ok bool
			if folder, ok = parts.DayFolder(rawCell(row, s.column)); !ok && !s.refuse() {
				return &s.refused
			}
		}
		if len(s.refused.Rows) == 0 {
			if err := s.add(folder, row); err != nil {
				return err
			}
		}
		s.row++
	}
}

// refuse notes the row, so that nothing of the file is stored, and reports whether there is room for another refused row. The message leaves
// out the cell, because the column may be secret.
func (s *splitter) refuse() (more bool) {
	return s.refused.Add(driver.RowError{
		Row: s.row, Column: s.d.Partition, Reason: string(celltype.Malformed), Message: "the cell is neither a date nor a timestamp",
	})
}

func (s *splitter) add(folder string, row []byte) error {
	d := s.days[folder]
	if d == nil {
		d = &day{}
		s.days[folder] = d
	}
	d.rows++
	d.wait.Write(row)
	if s.buffered += len(row); s.buffered < splitBuffer {
		return nil
	}
	s.buffered = 0
	for _, d := range s.days {
		if err := s.flush(d, false); err != nil {
			return err
		}
	}
	return nil
}

// flush appends the rows that wait to the temporary file of a day. last makes them durable.
func (s *splitter) flush(d *day, last bool) error {
	if d.wait.Len() == 0 && !last {
		return nil
	}
	var f parts.File
	var err error
	var header []byte
	if d.temp == "" {
		d.temp, f, err = s.s.CreateTemp(s.f.ID)
		header = s.header
	} else {
		f, err = s.s.FS.Append(d.temp)
	}
	if err != nil {
		return err
	}
	return parts.FillAndClose(s.ctx, f, last, func(w io.Writer) error {
		for _, rows := range [][]byte{header, d.wait.Bytes()} {
			if err := pack(w, rows, s.gzip); err != nil {
				return err
			}
		}
		d.wait.Reset()
		if d.wait.Cap() > 1<<20 {
			d.wait = bytes.Buffer{}
		}
		return nil
	})
}

// pack writes rows as they are stored in a part, as a separate gzip member, or plain.
func pack(w io.Writer, rows []byte, compress bool) error {
	if len(rows) == 0 {
		return nil
	}
	if !compress {
		_, err := w.Write(rows)
		return err
	}
	zw, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := zw.Write(rows); err != nil {
		return err
	}
	return zw.Close()
}
