package sqltest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
)

// The query to copy gives the newest rows of a table of files, that is, the rows with the latest times, or else the rows of the last files. Its own
// columns do not clash with the columns of the table.
func TestQueriesToCopyHaveAnOrder(t *testing.T) {
	pq, err := parquet.Tables(t.TempDir(), parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]interface {
		driver.Target
		driver.Querier
	}{"csv": dir.Tables(t.TempDir()), "csv without head": dir.TablesWith(t.TempDir(), dir.TablesOptions{NoHeader: true}), "parquet": pq} {
		n, at := datatype.Column{Name: "n", Type: datatype.Int64}, datatype.Column{Name: "at", Type: datatype.Timestamp}
		text := datatype.Column{Name: "FileName", Type: datatype.String}
		for _, c := range []struct {
			columns []datatype.Column
			cell    func(i int) string // of the second column
			first   int
		}{
			{[]datatype.Column{n}, nil, 59},
			{[]datatype.Column{n, at}, func(i int) string { return fmt.Sprintf("2026-11-22T23:%02d:00.000000Z", 59-i) }, 0},
			{[]datatype.Column{n, text}, func(int) string { return "x" }, 59},
		} {
			table := driver.Table{ID: fmt.Sprintf("t%d", len(c.columns)) + c.columns[len(c.columns)-1].Name, Columns: c.columns}
			for file0 := range 30 {
				var rows [][]string
				for i := 2 * file0; i < 2*file0+2; i++ {
					row := []string{fmt.Sprintf("%02d", i)}
					if table.Columns[0].Type == datatype.Int64 {
						row[0] = fmt.Sprint(i)
					}
					if c.cell != nil {
						row = append(row, c.cell(i))
					}
					rows = append(rows, row)
				}
				if err := target.Import(t.Context(), file(fmt.Sprintf("file-%03d", file0), table, rows...)); err != nil {
					t.Fatal(err)
				}
			}
			_, query := target.Query(table)
			got := strings.Split(strings.TrimSpace(ask(t, query)), "\n")
			if len(got) != 20 || strings.Count(got[0], ",") != len(c.columns)-1 {
				t.Errorf("%s, %s: %d rows, of which the first is %s", name, query, len(got), got[0])
				continue
			}
			// The rows of one file of CSV are in no order, and its numbers are text.
			if first := got[0]; !strings.HasPrefix(first, fmt.Sprintf(`"%d"`, c.first)) &&
				!(name != "parquet" && (strings.HasPrefix(first, `"58"`) && c.first == 59 || c.columns[len(c.columns)-1].Name == "FileName" && strings.HasPrefix(first, `"9"`))) {
				t.Errorf("%s, %s: the first row is %s, want %d", name, query, first, c.first)
			}
		}
	}
}
