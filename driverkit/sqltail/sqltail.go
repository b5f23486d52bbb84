// Package sqltail is for drivers of SQL databases that show the newest rows of a table. It writes a query that returns no more bytes than a limit,
// and makes a [driver.Tail] of the rows.
package sqltail

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// MaxBytes bounds the values of the rows of a tail, as the database counts them.
const MaxBytes = 4 << 20

// Column is a column of the table that is read.
type Column struct {
	datatype.Column
	// Name is the quoted name, as SQL.
	Name string
	// Text returns SQL for the text of a value. It gets the name of the column in the query, and is called for rows within the limit.
	Text func(name string) string
	// Size returns SQL for the number of bytes of a value, or NULL for NULL. It should not read the value itself.
	Size func(name string) string
}

// Query returns a statement that returns the newest n rows of a table, the newest row first. from is what stands after FROM. Rows are newest if they
// are greatest by the expressions of order. The first column of the result is the text of the number of bytes of this and all newer rows. The texts of
// the columns follow. They are NULL if the number is greater than limit.
func Query(columns []Column, from string, order []string, n int, limit int64) string {
	var inner, outer, sizes, places []string
	for i, c := range columns {
		name := "c" + strconv.Itoa(i)
		inner = append(inner, c.Name+" AS "+name)
		outer = append(outer, fmt.Sprintf("CASE WHEN total <= %d THEN %s END", limit, c.Text(name)))
		sizes = append(sizes, "coalesce("+c.Size(name)+", 0)")
	}
	for i, by := range order {
		name := "o" + strconv.Itoa(i)
		inner = append(inner, by+" AS "+name)
		places = append(places, name+" DESC")
	}
	by := " ORDER BY " + strings.Join(places, ", ")
	return "SELECT CAST(total AS VARCHAR), " + strings.Join(outer, ", ") +
		" FROM (SELECT newest.*, sum(" + strings.Join(sizes, " + ") + ") OVER (" + by[1:] + " ROWS UNBOUNDED PRECEDING) AS total" +
		" FROM (SELECT " + strings.Join(inner, ", ") + " FROM " + from + by + " LIMIT " + strconv.Itoa(n) + ") AS newest) AS summed" + by
}

// Tail makes a tail of the rows that a query of [Query] returns.
type Tail struct {
	columns []datatype.Column
	limit   int64
	rows    [][][]byte
	cut     bool
}

// New returns a tail without rows. limit is the limit of the query.
func New(columns []Column, limit int64) *Tail {
	t := &Tail{limit: limit}
	for _, c := range columns {
		t.columns = append(t.columns, c.Column)
	}
	return t
}

// Add adds the next row of the result, and keeps its cells. NULL is nil. Rows that follow a row beyond the limit are ignored.
func (t *Tail) Add(row [][]byte) error {
	total, err := strconv.ParseInt(string(row[0]), 10, 64)
	if err != nil {
		return fmt.Errorf("the size of a row: %w", err)
	}
	if t.cut = t.cut || total > t.limit; t.cut {
		return nil
	}
	cells := row[1:]
	for i, c := range t.columns {
		if c.Type != datatype.Float64 || cells[i] == nil {
			continue
		}
		if f, err := strconv.ParseFloat(string(cells[i]), 64); err == nil { // databases write exponents in different ways
			cells[i] = datatype.AppendFloat64(nil, f)
		}
	}
	t.rows = append(t.rows, cells)
	return nil
}

// End returns the tail after the last row. The error is [driver.ErrTailTooLarge] if the newest row is beyond the limit. imported is when the newest
// row was imported, zero if the driver does not know it.
func (t *Tail) End(imported time.Time) (driver.Tail, error) {
	if t.cut && len(t.rows) == 0 {
		return driver.Tail{}, driver.ErrTailTooLarge
	}
	slices.Reverse(t.rows)
	tail := driver.Tail{Columns: t.columns, Rows: t.rows}
	if len(t.rows) > 0 {
		tail.Imported = imported
	}
	return tail, nil
}

// TimeColumn returns the name of the column that tells the time of a row. It is the first of the names that is a column of type timestamp, else the
// first required timestamp, else the first timestamp. It returns "" if there is none.
func TimeColumn(columns []datatype.Column, names ...string) string {
	for _, name := range names {
		if i := slices.IndexFunc(columns, func(c datatype.Column) bool { return strings.EqualFold(c.Name, name) && c.Type == datatype.Timestamp }); i >= 0 {
			return columns[i].Name
		}
	}
	for _, required := range []bool{true, false} {
		if i := slices.IndexFunc(columns, func(c datatype.Column) bool { return c.Required == required && c.Type == datatype.Timestamp }); i >= 0 {
			return columns[i].Name
		}
	}
	return ""
}
