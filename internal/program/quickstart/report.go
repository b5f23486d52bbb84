package quickstart

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/show"
)

// audit compares the tables with what the clients know.
type audit struct {
	rows int64 // of this run, in all tables
	// rejected, lost, duplicated and unconfirmed count rows: see the package comment.
	rejected, lost, duplicated, unconfirmed int64
	wrong                                   int64 // rows with a cell that belongs to another event
	tables                                  []show.Table
	orders                                  []datatype.Column
	hint                                    string
}

// auditTables reads every row of the tables.
func auditTables(cfg config, dir string, l *ledger) (_ *audit, err error) {
	st, err := cfg.open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	a := &audit{rejected: l.rejected, hint: st.Hint}
	tables := st.Tables
	for i, id := range tableIDs {
		t := show.Table{ID: id, Keep: 3}
		stored := make(map[delivery]int64, len(l.acked[i]))
		columns, err := tables.Columns(id)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", id, err)
		}
		t.Columns = datatype.Names(columns)
		if i == 0 {
			a.orders = columns
		}
		for row, err := range tables.Rows(id) {
			if err != nil {
				return nil, fmt.Errorf("read table %s: %w", id, err)
			}
			cell := func(name string) string {
				if at := slices.Index(t.Columns, name); at >= 0 {
					return row[at]
				}
				return ""
			}
			d, ok := parseDelivery(l.run, cell("delivery"))
			if !ok {
				continue // of an earlier run
			}
			t.Add(row)
			stored[d]++
			number, body := cell("number"), cell("body")
			if number != "" && number != orderNumber(d.event) || body != "" && !strings.Contains(body, `"`+d.id(l.run)+`"`) {
				a.wrong++
			}
		}
		a.compare(l.acked[i], stored)
		a.rows += t.Rows
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
	for i := range a.tables {
		fmt.Fprintln(out)
		_ = a.tables[i].Print(out, 26)
	}
	if a.hint != "" {
		fmt.Fprintf(out, "\nQuery the tables:\n\n  %s\n", a.hint)
	} else {
		folder := filepath.Join(dataDir, "tables")
		fmt.Fprintf(out, "\nThe tables are folders of CSV files, one file per import:\n  %s\n", folder)
		orders := filepath.Join(folder, tableIDs[0])
		fmt.Fprintf(out, "Query them with what you have. DuckDB:\n\n  %s\n\nSQLite:\n\n  %s\n", duckdb(orders, a.orders), sqlite(orders, a.orders))
	}
	if temporary {
		what := "everything"
		if a.hint != "" { // the tables are elsewhere
			what = "the data directory"
		}
		fmt.Fprintf(out, "\nRemove %s: rm -r %s\n", what, shellQuote(dataDir))
	}
	fmt.Fprintln(out)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
