package quickstart

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/show"
)

// audit compares the tables with the clients' ledger.
type audit struct {
	rows int64 // of this run, in all tables
	// rejected, lost, duplicated and unconfirmed count rows, see the package comment.
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
		return fmt.Errorf("%d rows are in the tables although no response confirmed them", a.unconfirmed)
	}
	return nil
}

// The last screen fits a terminal of 24 lines with 100 characters. Longer commands are written to files.
const (
	cellWidth    = 12
	longestShown = 96 // without the indentation
)

// print shows rows of the first table, where all rows are, and a command that queries them.
func (a *audit) print(out io.Writer, dataDir string, temporary bool) error {
	fmt.Fprintln(out)
	_ = a.tables[0].Print(out, cellWidth)
	for _, t := range a.tables[1:] {
		fmt.Fprintf(out, "table %s: %d rows\n", t.ID, t.Rows)
	}
	fmt.Fprintln(out)
	if err := a.printQueries(out, dataDir); err != nil {
		return err
	}
	if temporary {
		what := "everything"
		if a.hint != "" { // the tables are elsewhere
			what = "the data directory"
		}
		fmt.Fprintf(out, "Remove %s:\n  rm -r %s\n", what, shellQuote(dataDir))
	}
	fmt.Fprintln(out)
	return nil
}

func (a *audit) printQueries(out io.Writer, dataDir string) error {
	if a.hint != "" {
		command, err := short(a.hint, dataDir, "query.sh")
		fmt.Fprintf(out, "Query the tables:\n  %s\n", command)
		return err
	}
	folder := filepath.Join(dataDir, "tables")
	orders := filepath.Join(folder, tableIDs[0])
	fmt.Fprintf(out, "The tables are folders of CSV files, one file per import:\n  %s\n", folder)
	lite, err := short(sqlite(orders, a.orders), dataDir, "query.sh")
	if err != nil {
		return err
	}
	queries := filepath.Join(dataDir, "query.sql")
	if err := os.WriteFile(queries, []byte(duckdbQuery(orders, a.orders)+";\n"), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(out, "Query them with sqlite3 and perl, or with DuckDB:\n  %s\n  duckdb < %s\n", lite, shellQuote(queries))
	return nil
}

// short writes a command that is long to a file of the data directory, and returns the command that runs it.
func short(command, dataDir, name string) (string, error) {
	if len(command) <= longestShown {
		return command, nil
	}
	file := filepath.Join(dataDir, name)
	return "sh " + shellQuote(file), os.WriteFile(file, []byte(command+"\n"), 0o600)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
