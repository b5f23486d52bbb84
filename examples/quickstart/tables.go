package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/buffer/dir"
)

// readTable calls yield with every row of a table.
func readTable(tables, id string, yield func(columns, row []string)) error {
	t := dir.Tables(tables)
	columns, err := t.Columns(id)
	if err != nil {
		return err
	}
	for row, err := range t.Rows(id) {
		if err != nil {
			return err
		}
		yield(columns, row)
	}
	return nil
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

func printQueries(out io.Writer, dataDir string, temporary bool, orders tableAudit) {
	fmt.Fprintf(out, "\nThe tables are folders of CSV files without a header, one file per import:\n  %s\nQuery them with what you have, for example:\n",
		filepath.Join(dataDir, "tables"))
	for _, q := range queries(dataDir, orders) {
		fmt.Fprintf(out, "\n  %s\n", q.command)
	}
	if temporary {
		fmt.Fprintf(out, "\nRemove everything: rm -r %s\n", shellQuote(dataDir))
	}
	fmt.Fprintln(out)
}
