package platform

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/forebay/forebay/storageapi"
)

// The rows of a table are in parts, which are immutable CSV files in a folder for each table. Records list the parts of a table, so that
// an import becomes visible as a whole, in the change that ends its job. A file without a record is left from a crash. The next
// opening removes it.

type part struct {
	ID int64 `json:"id"`
	// Place orders the parts of a table; 0 means ID. A merged part stands where the first of the old ones stood.
	Place int64 `json:"place,omitempty"`
	// Columns are the ids of the columns in the order of the cells. Cells of other columns of the table are empty. Columns that
	// the table no longer has are not shown.
	Columns []int64 `json:"columns"`
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`
	// At is the time of the import. A merged part has the time of its last import, and Spans has the times of all rows.
	At    storageapi.Time `json:"at"`
	Spans []span          `json:"spans,omitempty"`
}

func (pt part) place() int64 {
	if pt.Place != 0 {
		return pt.Place
	}
	return pt.ID
}

func partKey(branch, table string, place int64) string {
	return key("part", branch, table, number(place))
}

// parts are the files of all tables.
type parts struct {
	root  string
	temps atomic.Int64

	mu     sync.Mutex      // guards the fields below. It is held while a reader reads the list of its parts
	used   map[string]int  // readers of a part, by path
	doomed map[string]bool // parts to remove when their last reader ends
}

func openParts(root string) (*parts, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	return &parts{root: root, used: make(map[string]int), doomed: make(map[string]bool)}, syncDir(filepath.Dir(root))
}

const partExtension = ".csv"

func (p *parts) folder(incarnation int64) string {
	return filepath.Join(p.root, strconv.FormatInt(incarnation, 10))
}

func (p *parts) path(incarnation, id int64) string {
	return filepath.Join(p.folder(incarnation), strconv.FormatInt(id, 10)+partExtension)
}

// partWriter writes the rows of a new part.
type partWriter struct {
	w    io.Writer
	rows int64
	at   storageapi.Time // of new rows
	line []byte
	// spans are the times of the rows that were written.
	spans []span
}

// row writes a row that is imported now.
func (w *partWriter) row(cells [][]byte) error { return w.rowOf(w.at, cells) }

func (w *partWriter) rowOf(at storageapi.Time, cells [][]byte) error {
	if n := len(w.spans); n > 0 && w.spans[n-1].At.Equal(at.Time) {
		w.spans[n-1].Rows++
	} else {
		w.spans = append(w.spans, span{1, at})
	}
	w.line = appendRow(w.line[:0], cells)
	w.rows++
	_, err := w.w.Write(w.line)
	return err
}

// write stores a new part durably. It belongs to no table until its record is stored.
func (p *parts) write(incarnation, id int64, columns []int64, fill func(w *partWriter) error) (part, error) {
	if err := ensureDir(p.folder(incarnation)); err != nil {
		return part{}, err
	}
	out := part{ID: id, Columns: columns, At: now()}
	var err error
	out.Bytes, err = writeDurably(p.path(incarnation, id), strconv.FormatInt(p.temps.Add(1), 10), func(w io.Writer) error {
		pw := &partWriter{w: w, at: out.At}
		err := fill(pw)
		out.Rows = pw.rows
		if n := len(pw.spans); n > 0 {
			out.At = pw.spans[n-1].At
		}
		if len(pw.spans) > 1 {
			out.Spans = pw.spans
		}
		return err
	})
	return out, err
}

// acquire reads a table with its parts on one state of the store. The files stay until release is called.
func (p *parts) acquire(s *store, branch, id string) (t table, list []part, release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err = s.view(func(tx *txn) (err error) {
		t, err = getTable(tx, branch, id)
		list = all[part](tx, key("part", branch, id, ""))
		return err
	})
	if err != nil {
		return t, nil, func() {}, err
	}
	for _, pt := range list {
		p.used[p.path(t.Incarnation, pt.ID)]++
	}
	return t, list, func() { p.release(t.Incarnation, list) }, nil
}

func (p *parts) release(incarnation int64, list []part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pt := range list {
		path := p.path(incarnation, pt.ID)
		if p.used[path]--; p.used[path] > 0 {
			continue
		}
		delete(p.used, path)
		if p.doomed[path] {
			delete(p.doomed, path)
			_ = os.Remove(path) // what stays goes at the next opening
		}
	}
}

// remove removes parts without records. A part with readers is removed after the last one.
func (p *parts) remove(incarnation int64, list []part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pt := range list {
		path := p.path(incarnation, pt.ID)
		if p.used[path] > 0 {
			p.doomed[path] = true
			continue
		}
		_ = os.Remove(path) // what stays goes at the next opening
	}
}

// dropTables removes the data of deleted tables. Parts with readers are removed after the last one.
func (p *parts) dropTables(list []table) {
	for _, t := range list {
		entries, _ := os.ReadDir(p.folder(t.Incarnation))
		var all []part
		for _, e := range entries {
			if id, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), partExtension), 10, 64); err == nil {
				all = append(all, part{ID: id})
			}
		}
		p.remove(t.Incarnation, all)
		p.removeEmpty(t.Incarnation)
	}
}

// removeEmpty removes the folder of a table that is gone. One that still has parts stays.
func (p *parts) removeEmpty(incarnation int64) {
	_ = os.Remove(p.folder(incarnation)) // fails if there is something in it
}

// sweep removes files that no record refers to.
func (p *parts) sweep(s *store) error {
	known := make(map[string]bool)
	err := s.view(func(tx *txn) error {
		for t := range each[table](tx, key("table", ""), false) {
			known[p.folder(t.Incarnation)] = true
			for pt := range each[part](tx, key("part", t.Branch, t.ID, ""), false) {
				known[p.path(t.Incarnation, pt.ID)] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	folders, err := os.ReadDir(p.root)
	if err != nil {
		return err
	}
	for _, f := range folders {
		folder := filepath.Join(p.root, f.Name())
		if !known[folder] {
			err = errors.Join(err, os.RemoveAll(folder))
			continue
		}
		entries, rerr := os.ReadDir(folder)
		err = errors.Join(err, rerr)
		for _, e := range entries {
			if path := filepath.Join(folder, e.Name()); !known[path] {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}
	return err
}

// read calls each with the cells of every row of a part, good until the next call.
func (p *parts) read(incarnation int64, pt part, each func(cells [][]byte) error) error {
	f, err := os.Open(p.path(incarnation, pt.ID))
	if err != nil {
		return err
	}
	defer f.Close()
	return newCSVReader(f, plainCSV).each(each)
}

// projection puts cells of a part into the order of other columns.
type projection struct {
	from  []int // place of each column in the part, -1 for none
	cells [][]byte
}

func project(columns []int64, pt part) *projection {
	p := &projection{from: make([]int, len(columns)), cells: make([][]byte, len(columns))}
	for i, id := range columns {
		p.from[i] = slices.Index(pt.Columns, id)
	}
	return p
}

// row returns the cells in the order of the columns. The slice is used again by the next call.
func (p *projection) row(cells [][]byte) [][]byte {
	for i, j := range p.from {
		p.cells[i] = nil
		if j >= 0 && j < len(cells) {
			p.cells[i] = cells[j]
		}
	}
	return p.cells
}
