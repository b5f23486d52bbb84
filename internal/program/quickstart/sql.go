package quickstart

import (
	"fmt"
	"strings"

	"github.com/forebay/forebay/datatype"
)

// summary counts the orders by country, and total sums them up. NULL and the empty text are not the same.
func summary(total string) string {
	return "SELECT country, count(*) AS orders, " + total + " AS total, count(*) - count(note) AS null_notes, " +
		"count(CASE WHEN note = '' THEN 1 END) AS empty_notes FROM orders GROUP BY 1 ORDER BY 1"
}

// duckdbQuery reads the parts of the orders table with their types.
func duckdbQuery(folder string, columns []datatype.Column) string {
	names := map[datatype.Type]string{
		datatype.Bool: "BOOLEAN", datatype.Int64: "BIGINT", datatype.Float64: "DOUBLE", datatype.Timestamp: "TIMESTAMPTZ",
		datatype.Date: "DATE", datatype.UUID: "UUID", datatype.JSON: "JSON",
	}
	var types []string
	for _, c := range columns {
		name := names[c.Type]
		if _, _, ok := c.Type.DecimalOf(); ok {
			name = string(c.Type)
		} else if name == "" {
			name = "VARCHAR"
		}
		types = append(types, fmt.Sprintf("'%s': '%s'", c.Name, name))
	}
	return fmt.Sprintf(`WITH orders AS (FROM read_csv('%s/*.csv', header = true, delim = ',', quote = '"', escape = '"', `+
		`allow_quoted_nulls = false, types = {%s})) %s`,
		strings.ReplaceAll(folder, "'", "''"), strings.Join(types, ", "), summary("sum(total)"))
}

// sqlite is a command for a shell that loads the parts of the orders table and reads them with their types. The import of sqlite3 knows no
// NULL, so the command turns an empty cell without quotes into a byte that no cell has, and that byte into NULL.
func sqlite(folder string, columns []datatype.Column) string {
	var types, nulls []string
	for _, c := range columns {
		kind := "TEXT"
		switch _, _, decimal := c.Type.DecimalOf(); {
		case c.Type == datatype.Int64:
			kind = "INTEGER"
		case c.Type == datatype.Float64:
			kind = "REAL"
		case decimal:
			kind = "NUMERIC"
		}
		types = append(types, c.Name+" "+kind)
		nulls = append(nulls, fmt.Sprintf("%s = nullif(%[1]s, char(1))", c.Name))
	}
	return fmt.Sprintf(`tail -q -n +2 %s/*.csv | perl -0777 -pe 's/("(?:[^"]++|"")*+"|)([,\n])/(length $1 ? $1 : "\x01").$2/ge' | `+
		`sqlite3 -box :memory: 'CREATE TABLE orders (%s)' '.import --csv /dev/stdin orders' 'UPDATE orders SET %s' "%s"`,
		shellQuote(folder), strings.Join(types, ", "), strings.Join(nulls, ", "), summary("printf('%.2f', sum(total))"))
}
