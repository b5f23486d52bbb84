package postgres

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/drivertest"
)

var server pgtest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// open returns a target in an empty schema.
func open(tb testing.TB, o Options) *Target {
	tb.Helper()
	o.Schema = server.Schema(tb)
	return reopen(tb, o)
}

func reopen(tb testing.TB, o Options) *Target {
	tb.Helper()
	target, err := Open(server.URL(tb), o)
	return drivertest.Opened(tb, target, err)
}

// readTable reads a table as canonical texts, in the order in which rows were written.
func readTable(tb testing.TB, schema, table string) [][]string {
	tb.Helper()
	conn := server.Connect(tb)
	defer conn.Close(context.Background())
	target := &Target{options: Options{Schema: schema}}
	var columns []column
	err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) (err error) {
		columns, err = target.columns(context.Background(), tx, table)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	if columns == nil {
		return nil
	}
	var exprs []string
	for _, c := range columns {
		expr := quote(c.name)
		switch c.oid {
		case pgtype.TimestamptzOID:
			expr = fmt.Sprintf(`to_char(%s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`, expr)
		case pgtype.ByteaOID:
			expr = fmt.Sprintf(`translate(encode(%s, 'base64'), E'\n', '')`, expr)
		case pgtype.Float8OID:
			// PostgreSQL writes exponents with two digits, and from 1e15 on.
			expr = fmt.Sprintf(`'float ' || %s::text`, expr)
		}
		exprs = append(exprs, expr+"::text")
	}
	rows, err := conn.Query(context.Background(), "SELECT "+strings.Join(exprs, ", ")+" FROM "+quote(schema, table)+" ORDER BY tableoid, ctid")
	if err != nil {
		tb.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
		cells := make([]*string, len(columns))
		places := make([]any, len(columns))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := row.Scan(places...); err != nil {
			return nil, err
		}
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = buffertest.Null
			if cell != nil {
				texts[i] = canonicalFloat(*cell)
			}
		}
		return texts, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// harness lets the suites use targets in schemas of the server.
func harness() buffertest.TargetHarness {
	var last Options
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			target := open(t, Options{})
			last = target.options
			return target
		},
		Reopen:    func(t *testing.T) driver.Target { return reopen(t, last) },
		Rows:      func(t *testing.T, table string) [][]string { return readTable(t, last.Schema, table) },
		Unordered: true,
		TextOnly:  true,
		Typed:     true,
		Process: &buffertest.Process{
			Place: func(t *testing.T) string { return server.URL(t) + "|" + last.Schema },
			Open: func(t *testing.T, place string) driver.Target {
				url, schema, _ := strings.Cut(place, "|")
				target, err := Open(url, Options{Schema: schema})
				if err != nil {
					t.Fatal(err)
				}
				return target
			},
		},
		Refusal: drivertest.Percent(func(t *testing.T, table string) {
			pgtest.Exec(t, server.Connect(t), `ALTER TABLE `+quote(last.Schema, table)+` ADD CHECK ("share, in percent" <= 100)`)
		}),
	}
}

func TestTarget(t *testing.T) { buffertest.Target(t, harness()) }

func TestKills(t *testing.T) { buffertest.Kills(t, harness()) }

func canonicalFloat(text string) string {
	number, found := strings.CutPrefix(text, "float ")
	if !found {
		return text
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	return string(datatype.AppendFloat64(nil, f))
}
