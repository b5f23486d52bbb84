package platform

import (
	"context"
	"net/http"

	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/storageapi"
)

// loader writes the rows of a file as parts of a table.
type loader struct {
	s         *Server
	run       *jobRun
	t         table // with the columns that are added
	src       *fileRows
	names     []string // columns of the file
	hasHeader bool
	how       importHow
	checks    []cellCheck // of the columns of the file
	converted []byte      // the cells of one row that are not text
	cells     [][]byte

	rows     int64  // rows of the file
	rewrites []part // parts that stand for replaced ones
	replaced []part
}

// discard removes the parts of a refused job. After any other failure the transaction may be on disk, so the parts stay. The
// next opening removes orphans.
func (l *loader) discard(id int64, err error) {
	if _, internal := explain(err); err == nil || internal {
		return
	}
	l.s.parts.remove(l.t.Incarnation, append(l.rewrites, part{ID: id}))
	l.s.parts.removeEmpty(l.t.Incarnation)
}

// eachRow calls row with every row of the file that is not the header, as the table is to store it. n counts them from 0.
func (l *loader) eachRow(row func(n int64, cells [][]byte) error) error {
	var n int64
	l.checks = l.checks[:0]
	for _, name := range l.names {
		l.checks = append(l.checks, l.t.check(l.t.Columns[l.t.find(name)]))
	}
	return l.src.each(func(line int64, cells [][]byte) error {
		if line == 0 && l.hasHeader {
			return nil
		}
		if len(cells) != len(l.names) {
			return refuse(http.StatusBadRequest, "csvImport.loadError", "Load error: row %d has %d cells, the file has %d columns", line+1, len(cells), len(l.names))
		}
		cells, err := l.convert(line+1, cells)
		if err != nil {
			return err
		}
		n++
		return row(n-1, cells)
	})
}

// convert turns the cells of the file into cells of the table. The result is valid until the next call.
func (l *loader) convert(row int64, cells [][]byte) ([][]byte, error) {
	l.converted, l.cells = l.converted[:0], l.cells[:0]
	for i, text := range cells {
		cell, grown, reason := l.checks[i].cell(l.converted, text, l.how.Null != nil && string(text) == *l.how.Null)
		if reason != celltype.OK {
			return nil, l.checks[i].explainCell(row, text, reason)
		}
		// A cell stays where it is when the buffer grows for the next one.
		l.converted = grown
		l.cells = append(l.cells, cell)
	}
	return l.cells, nil
}

// write writes the part with the new rows, and rewrites old parts that lose rows to it.
func (l *loader) write(id int64, ids []int64, old []part) (part, error) {
	if len(l.t.PrimaryKey) == 0 {
		return l.s.parts.write(l.t.Incarnation, id, ids, func(w *partWriter) error {
			return l.eachRow(func(_ int64, cells [][]byte) error {
				l.rows++
				return w.row(cells)
			})
		})
	}

	// With a key the last row of each key remains. The keys of the file are kept in memory, not the rows.
	places := placesOf(l.t.PrimaryKey, l.names)
	last := make(map[string]int64)
	var k []byte
	err := l.eachRow(func(n int64, cells [][]byte) error {
		l.rows++
		k = keyOf(k[:0], cells, places)
		last[string(k)] = n
		return nil
	})
	if err != nil {
		return part{}, err
	}
	if l.how.Incremental {
		for _, pt := range old {
			if err := l.mergeInto(pt, last); err != nil {
				return part{}, err
			}
		}
	}
	return l.s.parts.write(l.t.Incarnation, id, ids, func(w *partWriter) error {
		return l.eachRow(func(n int64, cells [][]byte) error {
			k = keyOf(k[:0], cells, places)
			if at, ok := last[string(k)]; !ok || at != n {
				return nil
			}
			return w.row(cells)
		})
	})
}

// mergeInto removes rows from an old part whose keys come again. With KeepExisting the old rows win, so it removes their keys
// from the new ones.
func (l *loader) mergeInto(pt part, fresh map[string]int64) error {
	proj, places := project(l.t.ids(), pt), l.t.keyPlaces()
	var k []byte
	hit := false
	err := l.s.parts.read(l.t.Incarnation, pt, func(cells [][]byte) error {
		k = keyOf(k[:0], proj.row(cells), places)
		if _, again := fresh[string(k)]; again {
			hit = true
			if l.how.KeepExisting {
				delete(fresh, string(k))
			}
		}
		return l.run.ctx.Err()
	})
	if err != nil || !hit || l.how.KeepExisting {
		return err
	}
	rest, err := l.s.rewrite(l.run.ctx, l.t, []part{pt}, func(_ storageapi.Time, cells [][]byte) bool {
		k = keyOf(k[:0], cells, places)
		_, again := fresh[string(k)]
		return !again
	})
	if err != nil {
		return err
	}
	l.rewrites, l.replaced = append(l.rewrites, rest), append(l.replaced, pt)
	return nil
}

// rewrite makes one part of the rows of others that keep wants, in the place of the first and in the order of the table's
// columns.
func (s *Server) rewrite(ctx context.Context, t table, old []part, keep func(at storageapi.Time, cells [][]byte) bool) (part, error) {
	id, err := s.store.ids.take()
	if err != nil {
		return part{}, err
	}
	out, err := s.parts.write(t.Incarnation, id, t.ids(), func(w *partWriter) error {
		for _, pt := range old {
			proj, times := project(t.ids(), pt), pt.times()
			err := s.parts.read(t.Incarnation, pt, func(cells [][]byte) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				at, row := times.next(), proj.row(cells)
				if !keep(at, row) {
					return nil
				}
				return w.rowOf(at, row)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	out.Place = old[0].place()
	return out, err
}

// commit makes the new parts the table's.
func (l *loader) commit(tx *txn, t *table, fresh part) {
	t.LastImport, t.LastChange = now(), now()
	replaceParts(tx, t, append(l.rewrites, fresh), l.replaced)
}

// replaceParts stores and deletes the records of parts and counts the rows of the table again.
func replaceParts(tx *txn, t *table, added, removed []part) {
	for _, pt := range removed {
		tx.delete(partKey(t.Branch, t.ID, pt.place()))
		t.Rows -= pt.Rows
		t.Bytes -= pt.Bytes
	}
	for _, pt := range added {
		if pt.Rows == 0 {
			continue
		}
		tx.put(partKey(t.Branch, t.ID, pt.place()), pt)
		t.Rows += pt.Rows
		t.Bytes += pt.Bytes
	}
	t.Change++
}
