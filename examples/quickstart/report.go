package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/forebay/forebay/buffer/dir"
)

// audit compares the tables with what the clients know.
type audit struct {
	rows int64 // of this run, in all tables
	// rejected, lost, duplicated and unconfirmed count rows: see the package comment.
	rejected, lost, duplicated, unconfirmed int64
	wrong                                   int64 // rows with a cell that belongs to another event
	tables                                  []tableAudit
}

type tableAudit struct {
	id      string
	columns []string
	rows    int64
	samples [][]string
}

const sampleRows = 3

// auditTables reads every row of the tables.
func auditTables(folder string, l *ledger) (*audit, error) {
	a := &audit{rejected: l.rejected}
	tables := dir.Tables(folder)
	for i, id := range tableIDs {
		t := tableAudit{id: id}
		stored := make(map[delivery]int64, len(l.acked[i]))
		var err error
		if t.columns, err = tables.Columns(id); err != nil {
			return nil, fmt.Errorf("read table %s: %w", id, err)
		}
		for row, err := range tables.Rows(id) {
			if err != nil {
				return nil, fmt.Errorf("read table %s: %w", id, err)
			}
			cell := func(name string) string {
				if at := slices.Index(t.columns, name); at >= 0 {
					return row[at]
				}
				return ""
			}
			d, ok := parseDelivery(l.run, cell("delivery"))
			if !ok {
				continue // of an earlier run
			}
			t.rows++
			stored[d]++
			number, body := cell("number"), cell("body")
			if number != "" && number != orderNumber(d.event) || body != "" && !strings.Contains(body, `"`+d.id(l.run)+`"`) {
				a.wrong++
			}
			if len(t.samples) < sampleRows {
				t.samples = append(t.samples, row)
			}
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

// verdict writes the last line.
func (a *audit) verdict(out io.Writer, cfg config) error {
	fmt.Fprintf(out, "quickstart: sent=%d rows=%d rejected=%d lost=%d duplicated=%d",
		cfg.n, a.rows, a.rejected, a.lost, a.duplicated)
	if cfg.crash {
		fmt.Fprintf(out, " unconfirmed=%d", a.unconfirmed)
	}
	fmt.Fprintln(out)
	switch {
	case a.lost > 0 || a.duplicated > 0:
		return errors.New("rows were lost or doubled")
	case a.wrong > 0:
		return fmt.Errorf("%d rows hold cells of another event", a.wrong)
	case !cfg.crash && a.unconfirmed > 0:
		return fmt.Errorf("%d rows are in the tables although no answer confirmed them", a.unconfirmed)
	}
	return nil
}

// print shows what is in the tables, where they are and how to query them.
func (a *audit) print(out io.Writer, dataDir string, temporary bool) {
	for _, t := range a.tables {
		fmt.Fprintf(out, "\ntable %s: %d rows, for example\n", t.id, t.rows)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "  %s\n", strings.Join(t.columns, "\t"))
		for _, row := range t.samples {
			for i, cell := range row {
				row[i] = shorten(cell)
			}
			fmt.Fprintf(w, "  %s\n", strings.Join(row, "\t"))
		}
		_ = w.Flush()
	}
	fmt.Fprintf(out, "\nThe tables are folders of CSV files without a header, one file per import:\n  %s\nQuery them with what you have, for example:\n",
		filepath.Join(dataDir, "tables"))
	for _, q := range queries(dataDir, a.tables[0]) {
		fmt.Fprintf(out, "\n  %s\n", q.command)
	}
	if temporary {
		fmt.Fprintf(out, "\nRemove everything: rm -r %s\n", shellQuote(dataDir))
	}
	fmt.Fprintln(out)
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

// query is a command for a shell that answers a question from the files alone.
type query struct{ tool, command string }

func queries(dataDir string, orders tableAudit) []query {
	folder := filepath.Join(dataDir, "tables", orders.id)
	parts := shellQuote(folder) + "/*.csv"
	return []query{
		{"sort", fmt.Sprintf(`cat %s | cut -d, -f6 | sort | uniq -c`, parts)},
		{"sqlite3", fmt.Sprintf(
			`cat %s | sqlite3 -box :memory: 'CREATE TABLE orders (%s)' '.import --csv /dev/stdin orders' `+
				`'SELECT country, count(*), round(sum(total), 2) AS total FROM orders GROUP BY 1 ORDER BY 1'`,
			parts, strings.Join(orders.columns, ", "))},
		{"duckdb", fmt.Sprintf(
			`duckdb -c "SELECT country, count(*), sum(total::DECIMAL(18,2)) AS total FROM `+
				`read_csv('%s/*.csv', header=false, all_varchar=true, names=['%s']) GROUP BY 1 ORDER BY 1"`,
			inDoubleQuotes.Replace(strings.ReplaceAll(folder, "'", "''")), strings.Join(orders.columns, "','"))},
	}
}

var inDoubleQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
