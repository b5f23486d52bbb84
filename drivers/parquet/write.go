package parquet

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/ctxio"
	"github.com/forebay/forebay/internal/parts"
)

const extension = ".parquet"

// format is the [parts.Format] of Parquet.
type format struct {
	rowGroup int64
	codec    compress.Codec
}

// Name implements [parts.Format].
func (format) Name() string { return "parquet" }

// Extensions implements [parts.Format].
func (format) Extensions() []string { return []string{extension} }

const (
	// batchRows and batchBytes bound the rows that wait to be written by columns, so that they stay in the cache of the CPU.
	batchRows, batchBytes = 1024, 256 << 10
	// maxBuffered bounds the plain bytes of all row groups that are open. Only rows of many days reach it.
	maxBuffered = 128 << 20
)

// fileWriter writes the rows of one file to a temporary part a day.
type fileWriter struct {
	format
	ctx     context.Context
	store   *parts.Store
	f       *buffer.File
	d       parts.Definition
	columns []column
	day     int // the column of the day; -1: there is none

	parts    map[string]*partWriter // by folder
	last     *partWriter            // of the last row
	lastDay  string                 // its first bytes
	arena    []byte                 // the bytes of the values that wait
	waiting  int                    // rows that wait
	buffered int64                  // bytes in open row groups
	refused  *buffer.RowsError
}

// Stage implements [parts.Format].
func (x format) Stage(ctx context.Context, s *parts.Store, d parts.Definition, f *buffer.File) (map[string]string, error) {
	names := d.NamesFor(f.Table)
	w := &fileWriter{
		format: x, ctx: ctx, store: s, f: f, d: d, columns: fileColumns(d, f.Table.Columns, names), day: -1,
		parts: make(map[string]*partWriter), arena: make([]byte, 0, batchBytes+batchBytes/4),
	}
	if d.Partition != "" {
		w.day = slices.Index(names, d.Partition)
	}
	for i := range w.columns { // the library keeps a page of memory for each that holds no NULL: too much for parts of many days
		w.columns[i].optional = d.Partition != "" || !w.columns[i].notNull
	}
	staged, err := w.write()
	if err != nil {
		for _, p := range w.parts {
			p.abandon()
		}
		return nil, err
	}
	return staged, nil
}

func (w *fileWriter) write() (map[string]string, error) {
	rows := w.f.ReadRows(w.ctx)
	defer rows.Close()
	for rows.Next() {
		if err := w.add(rows); err != nil {
			return nil, err
		}
		if w.refused != nil && len(w.refused.Rows) == buffer.MaxRowErrors {
			return nil, w.refused
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if w.refused != nil {
		w.refused.Complete = true
		return nil, w.refused
	}
	if err := w.writeBatch(); err != nil {
		return nil, err
	}
	staged := make(map[string]string)
	for _, folder := range slices.Sorted(maps.Keys(w.parts)) {
		p := w.parts[folder]
		if err := p.finish(); err != nil {
			return nil, err
		}
		staged[w.d.PartPath(folder, w.f.ID, p.rows, extension)] = p.out.temp
	}
	return staged, nil
}

// add converts a row.
func (w *fileWriter) add(rows *buffer.FileRows) error {
	cells := rows.Cells()
	p, err := w.part(cells)
	if err != nil {
		return err
	}
	for i := range w.columns {
		v, arena, err := w.columns[i].value(cells[i], i, w.arena)
		if err != nil {
			w.refuse(rows.Row(), w.columns[i].name, err)
			continue
		}
		w.arena = arena
		p.batch[i] = append(p.batch[i], v)
	}
	p.rows++
	if w.waiting++; w.waiting < batchRows && len(w.arena) < batchBytes {
		return nil
	}
	return w.writeBatch()
}

// refuse notes the first bad cell of a row. Nothing is stored then.
func (w *fileWriter) refuse(row int64, column string, err error) {
	if w.refused == nil {
		w.refused = &buffer.RowsError{}
	}
	if n := len(w.refused.Rows); n > 0 && w.refused.Rows[n-1].Row == row {
		return
	}
	reason, message, _ := strings.Cut(err.Error(), ": ")
	w.refused.Add(buffer.RowError{Row: row, Column: column, Reason: reason, Message: message})
}

// part returns the part of a row.
func (w *fileWriter) part(cells [][]byte) (p *partWriter, err error) {
	folder := ""
	if w.d.Partition != "" {
		folder = parts.NoDay
	} else if w.last != nil {
		return w.last, nil
	}
	if w.day >= 0 && cells[w.day] != nil {
		cell := cells[w.day]
		if n := len(time.DateOnly); len(cell) >= n && string(cell[:n]) == w.lastDay {
			return w.last, nil
		}
		if folder, err = parts.DayFolder(cell); err != nil {
			return nil, err
		}
	}
	p = w.parts[folder]
	if p == nil {
		p = &partWriter{format: w.format, columns: w.columns, out: &tempFile{ctx: w.ctx, store: w.store, id: w.f.ID}, batch: make([][]pq.Value, len(w.columns))}
		w.parts[folder] = p
	}
	w.last, w.lastDay = p, strings.TrimPrefix(folder, parts.DayPrefix)
	return p, nil
}

// writeBatch writes the rows that wait.
func (w *fileWriter) writeBatch() error {
	for _, folder := range slices.Sorted(maps.Keys(w.parts)) {
		if w.refused != nil {
			w.parts[folder].drop()
		} else if err := w.parts[folder].writeBatch(); err != nil {
			return err
		}
	}
	w.buffered += int64(len(w.arena))
	w.arena, w.waiting = w.arena[:0], 0
	if w.buffered < maxBuffered || len(w.parts) == 1 {
		return nil
	}
	w.buffered = 0
	for _, folder := range slices.Sorted(maps.Keys(w.parts)) {
		if err := w.parts[folder].endGroup(); err != nil {
			return err
		}
	}
	return nil
}

// partWriter writes one part by columns.
type partWriter struct {
	format
	columns []column
	out     *tempFile
	w       *pq.GenericWriter[any] // nil before the first batch
	batch   [][]pq.Value           // by column
	rows    int64
	group   int64 // rows in the row group
}

func (p *partWriter) writeBatch() error {
	n := len(p.batch[0])
	if n == 0 {
		return nil
	}
	if p.w == nil {
		p.open()
	}
	for i, to := range p.w.ColumnWriters() {
		if _, err := to.WriteRowValues(p.batch[i]); err != nil {
			return err
		}
	}
	p.drop()
	if p.group += int64(n); p.group < p.rowGroup {
		return nil
	}
	return p.endGroup()
}

func (p *partWriter) drop() {
	for i := range p.batch {
		p.batch[i] = p.batch[i][:0]
	}
}

// open decides by the first batch which columns get a dictionary: it must depend on the rows alone.
func (p *partWriter) open() {
	columns := slices.Clone(p.columns)
	for i := range columns {
		columns[i].dictionary = columns[i].kind == text && repeats(p.batch[i])
	}
	p.w = newWriter(p.out, columns, p.codec)
}

func newWriter(out io.Writer, columns []column, codec compress.Codec) *pq.GenericWriter[any] {
	return pq.NewGenericWriter[any](out, schemaOf(columns, codec),
		pq.CreatedBy("forebay", "1", ""), pq.DictionaryMaxBytes(1<<20), pq.WriteBufferSize(0),
		pq.DataPageStatistics(false)) // the bounds of pages are in the index behind them
}

// repeats reports whether the values of a column repeat so much that a dictionary pays: it costs CPU, and with unique values also
// space.
func repeats(values []pq.Value) bool {
	const few = 64
	distinct := make(map[string]struct{}, few)
	for _, v := range values {
		if distinct[string(v.ByteArray())] = struct{}{}; len(distinct) > few || len(distinct) > len(values)/4 {
			return false
		}
	}
	return true
}

// endGroup writes the row group to the file.
func (p *partWriter) endGroup() error {
	if p.group == 0 {
		return nil
	}
	p.group = 0
	err := p.w.Flush()
	return errors.Join(err, p.out.close(false))
}

func (p *partWriter) finish() error {
	if p.w == nil { // a file without rows
		p.open()
	}
	err := p.w.Close()
	return errors.Join(err, p.out.close(true))
}

// abandon removes what was written.
func (p *partWriter) abandon() {
	_ = p.out.close(false)
	if p.out.temp != "" {
		_ = p.out.store.FS.Remove(p.out.temp) // if it stays, the sweep removes it
	}
}

// tempFile is a temporary file that is open only while it is written, because a file of rows may have more days than a process may
// have open files.
type tempFile struct {
	ctx   context.Context
	store *parts.Store
	id    string
	temp  string // "" before the first write
	file  parts.File
}

func (t *tempFile) Write(p []byte) (n int, err error) {
	switch {
	case t.file != nil:
	case t.temp == "":
		t.temp, t.file, err = t.store.CreateTemp(t.id)
	default:
		t.file, err = t.store.FS.Append(t.temp)
	}
	if err != nil {
		t.file = nil
		return 0, err
	}
	return ctxio.Writer(t.ctx, t.file).Write(p)
}

// close closes the file. durable syncs it first.
func (t *tempFile) close(durable bool) (err error) {
	if t.file == nil {
		return nil
	}
	if durable {
		err = t.file.Sync()
	}
	err = errors.Join(err, t.file.Close())
	t.file = nil
	return err
}
