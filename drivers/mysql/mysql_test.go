package mysql

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
	"github.com/forebay/forebay/internal/drivertest"
)

var server mysqltest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// open returns a target in an empty database.
func open(tb testing.TB, o Options) *Target {
	tb.Helper()
	return reopen(tb, server.Database(tb), o)
}

func reopen(tb testing.TB, database string, o Options) *Target {
	tb.Helper()
	target, err := Open(server.URL(database), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = target.Close() })
	return target
}

// readTable reads a table as canonical texts, over a session that is not the driver's.
func readTable(tb testing.TB, database, table string) [][]string {
	tb.Helper()
	db := server.Connect(tb, database)
	defer db.Close()
	target := &Target{database: database}
	r, err := target.relation(tb.Context(), db, table)
	if err != nil {
		tb.Fatal(err)
	}
	if r == nil {
		return nil
	}
	var exprs []string
	types := make([]datatype.Type, len(r.columns))
	for i, c := range r.columns {
		types[i] = c.dataType()
		expr := quote(c.name)
		switch types[i] {
		case datatype.Bool:
			expr = fmt.Sprintf("CASE %[1]s WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE CONCAT('not a bool: ', %[1]s) END", expr)
		case datatype.Timestamp:
			expr = fmt.Sprintf("REPLACE(CONCAT(%s, 'Z'), ' ', 'T')", expr)
		case datatype.Bytes:
			expr = fmt.Sprintf(`REPLACE(TO_BASE64(%s), '\n', '')`, expr)
		}
		exprs = append(exprs, expr)
	}
	all := drivertest.Texts(tb, db, "SELECT "+strings.Join(exprs, ", ")+" FROM "+quote(table))
	for _, row := range all {
		for i, text := range row {
			if types[i] == datatype.Float64 && text != buffertest.Null {
				f, err := strconv.ParseFloat(text, 64)
				if err != nil {
					tb.Fatal(err)
				}
				row[i] = string(datatype.AppendFloat64(nil, f))
			}
		}
	}
	return all
}

// harness lets the suites use targets in databases of the server.
func harness(o Options) buffertest.TargetHarness {
	var last string
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			target := open(t, o)
			last = target.database
			return target
		},
		Reopen:    func(t *testing.T) driver.Target { return reopen(t, last, o) },
		Rows:      func(t *testing.T, table string) [][]string { return readTable(t, last, table) },
		Unordered: true,
		TextOnly:  true,
		Typed:     true,
		Process: &buffertest.Process{
			Place: func(t *testing.T) string { return server.URL(last) },
			Open: func(t *testing.T, place string) driver.Target {
				target, err := Open(place, o)
				if err != nil {
					t.Fatal(err)
				}
				return target
			},
		},
		Refusal: drivertest.Percent(func(t *testing.T, table string) {
			server.Exec(t, last, "ALTER TABLE "+quote(table)+" ADD CHECK (`share, in percent` <= 100)")
		}),
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	buffertest.Target(t, harness(Options{}))
}

func TestTargetInsertOnly(t *testing.T) {
	t.Parallel()
	buffertest.Target(t, harness(Options{InsertOnly: true}))
}

func TestKills(t *testing.T) { buffertest.Kills(t, harness(Options{})) }
