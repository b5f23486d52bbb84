package sqltail_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// The text of the query is fixed, so that a change of it is seen here before the databases run it.
func TestQuery(t *testing.T) {
	columns := []sqltail.Column{
		{Name: `"a"`, Text: func(name string) string { return name + "::text" }, Size: func(name string) string { return "length(" + name + ")" }},
		{Name: `"b"`, Text: func(name string) string { return name }, Size: func(string) string { return "8" }},
	}
	const want = `SELECT CAST(total AS VARCHAR), CASE WHEN total <= 100 THEN c0::text END, CASE WHEN total <= 100 THEN c1 END` +
		` FROM (SELECT newest.*, sum(coalesce(length(c0), 0) + coalesce(8, 0)) OVER (ORDER BY o0 DESC, o1 DESC ROWS UNBOUNDED PRECEDING) AS total` +
		` FROM (SELECT "a" AS c0, "b" AS c1, age AS o0, id AS o1 FROM t WHERE x ORDER BY o0 DESC, o1 DESC LIMIT 5) AS newest) AS summed ORDER BY o0 DESC, o1 DESC`
	if got := sqltail.Query(columns, "t WHERE x", []string{"age", "id"}, 5, 100); got != want {
		t.Errorf("got %s\nwant\n%s", got, want)
	}
}

func TestTail(t *testing.T) {
	columns := []sqltail.Column{{Column: datatype.Column{Name: "a", Type: datatype.Float64}}, {Column: datatype.Column{Name: "b"}}}
	row := func(total, a, b string) [][]byte { return [][]byte{[]byte(total), []byte(a), []byte(b)} }
	now := time.Now()
	for name, c := range map[string]struct {
		rows [][][]byte
		want string
		err  error
	}{
		"no row":                 {nil, "[]", nil},
		"the newest row is last": {[][][]byte{row("10", "1e+02", "x"), row("100", "NaN", "")}, `[["NaN" ""] ["100" "x"]]`, nil},
		"a later row is cut":     {[][][]byte{row("10", "1", "x"), row("101", "2", "y"), row("102", "3", "z")}, `[["1" "x"]]`, nil},
		"the newest row is cut":  {[][][]byte{row("101", "1", "x")}, "[]", driver.ErrTailTooLarge},
	} {
		tail := sqltail.New(columns, 100)
		for _, row := range c.rows {
			if err := tail.Add(row); err != nil {
				t.Error(err)
			}
		}
		got, err := tail.End(now)
		if fmt.Sprintf("%q", got.Rows) != c.want || !errors.Is(err, c.err) || got.Imported.Equal(now) != (len(got.Rows) > 0) {
			t.Errorf("%s: got %q, imported %v, %v, want %s, %v", name, got.Rows, got.Imported, err, c.want, c.err)
		}
	}
	if err := sqltail.New(columns, 100).Add(row("many", "1", "x")); err == nil {
		t.Error("a size that is no number is accepted")
	}
}

func TestTimeColumn(t *testing.T) {
	columns := []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "born", Type: datatype.Date}, {Name: "seen", Type: datatype.Timestamp}, {Name: "at", Type: datatype.Timestamp, Required: true},
	}
	for want, got := range map[string]string{
		"at":   sqltail.TimeColumn(columns),
		"seen": sqltail.TimeColumn(columns, "id", "SEEN"),
		"":     sqltail.TimeColumn(columns[:2], "id"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := sqltail.TimeColumn(columns[:3]); got != "seen" {
		t.Errorf("got %q, want seen", got)
	}
}
