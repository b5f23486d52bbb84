package mysql

import (
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
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
	rows, err := db.Query("SELECT " + strings.Join(exprs, ", ") + " FROM " + quote(table))
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var all [][]string
	for rows.Next() {
		cells := make([]sql.NullString, len(types))
		places := make([]any, len(types))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := rows.Scan(places...); err != nil {
			tb.Fatal(err)
		}
		texts := make([]string, len(cells))
		for i, cell := range cells {
			switch {
			case !cell.Valid:
				texts[i] = buffertest.Null
			case types[i] == datatype.Float64:
				f, err := strconv.ParseFloat(cell.String, 64)
				if err != nil {
					tb.Fatal(err)
				}
				texts[i] = string(datatype.AppendFloat64(nil, f))
			default:
				texts[i] = cell.String
			}
		}
		all = append(all, texts)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
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
		Refusal: &buffertest.Refusal{
			Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "share, in percent", Type: datatype.Float64}},
			Good:    []string{"1", "99.5"}, Bad: []string{"1", "100.4711"},
			Prepare: func(t *testing.T, table string) {
				server.Exec(t, last, "ALTER TABLE "+quote(table)+" ADD CHECK (`share, in percent` <= 100)")
			},
		},
	}
}

func TestTarget(t *testing.T) { buffertest.Target(t, harness(Options{})) }

func TestTargetInsertOnly(t *testing.T) { buffertest.Target(t, harness(Options{InsertOnly: true})) }

func TestKills(t *testing.T) { buffertest.Kills(t, harness(Options{})) }
