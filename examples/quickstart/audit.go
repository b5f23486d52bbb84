package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// audit compares the tables with what the clients know.
type audit struct {
	// rows counts the rows of this run in all tables.
	rows int64
	// rejected, lost, duplicated and unconfirmed count rows: see the package comment.
	rejected, lost, duplicated, unconfirmed int64
	// wrong counts rows with a cell that belongs to another event.
	wrong  int64
	tables []tableAudit
}

type tableAudit struct {
	id      string
	columns []string
	rows    int64
	samples [][]string
}

const sampleRows = 3

// auditTables reads every row of the tables.
func auditTables(tables string, l *ledger) (*audit, error) {
	a := &audit{rejected: l.rejected}
	for i, id := range tableIDs {
		t := tableAudit{id: id}
		stored := make(map[delivery]int64, len(l.acked[i]))
		err := readTable(tables, id, func(columns, row []string) {
			t.columns = columns
			cell := func(name string) string {
				if at := slices.Index(columns, name); at >= 0 {
					return row[at]
				}
				return ""
			}
			d, ok := parseDelivery(l.run, cell(deliveryColumn))
			if !ok {
				return // of an earlier run
			}
			t.rows++
			stored[d]++
			if !consistent(l.run, d, cell) {
				a.wrong++
			}
			if len(t.samples) < sampleRows {
				t.samples = append(t.samples, row)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", id, err)
		}
		a.compare(l.acked[i], stored)
		a.rows += t.rows
		a.tables = append(a.tables, t)
	}
	return a, nil
}

func (a *audit) compare(acked map[delivery]struct{}, stored map[delivery]int64) {
	for d := range acked {
		if stored[d] == 0 {
			a.lost++
		}
	}
	for d, n := range stored {
		a.duplicated += n - 1
		if _, ok := acked[d]; !ok {
			a.unconfirmed++
		}
	}
}

// consistent reports whether the other cells of a row belong to the same event.
func consistent(run string, d delivery, cell func(name string) string) bool {
	if number := cell(numberColumn); number != "" && number != orderNumber(d.event) {
		return false
	}
	body := cell("body")
	return body == "" || strings.Contains(body, `"`+d.id(run)+`"`)
}

// print shows what is in the tables, where they are and how to ask them more.
func (a *audit) print(out io.Writer, dir string, temporary bool) {
	for _, t := range a.tables {
		fmt.Fprintf(out, "\ntable %s: %d rows, for example\n", t.id, t.rows)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "  %s\n", strings.Join(t.columns, "\t"))
		for _, row := range t.samples {
			cells := make([]string, len(row))
			for i, c := range row {
				cells[i] = shorten(c)
			}
			fmt.Fprintf(w, "  %s\n", strings.Join(cells, "\t"))
		}
		_ = w.Flush()
	}
	printQueries(out, dir, temporary, a.tables[0])
}

// shorten fits a cell into a line.
func shorten(s string) string {
	const most = 26
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
