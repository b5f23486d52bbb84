package clickhouse

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/drivertest"
)

var server clickhousetest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// open returns a target in an empty database.
func open(tb testing.TB, o Options) *Target {
	tb.Helper()
	return reopen(tb, server.Database(tb), o)
}

func reopen(tb testing.TB, database string, o Options) *Target {
	tb.Helper()
	target, err := Open(server.URL(database), o)
	return drivertest.Opened(tb, target, err)
}

// readTable reads a table as canonical texts, without the driver.
func readTable(tb testing.TB, database, table string) [][]string {
	tb.Helper()
	name := quote(database) + "." + quote(table)
	var exprs []string
	var types []datatype.Type
	for _, row := range server.Rows(tb, "SELECT name, type, comment FROM system.columns WHERE database = "+literal(database)+" AND table = "+literal(table)+" ORDER BY position") {
		c := column{name: *row[0], typeName: *row[1], comment: *row[2]}
		if c.name == marker {
			continue
		}
		typ, expr := c.dataType(), "toString("+quote(c.name)+")"
		switch typ {
		case datatype.Timestamp:
			expr = "formatDateTime(" + quote(c.name) + ", '%Y-%m-%dT%H:%i:%S.%fZ', 'UTC')"
		case datatype.Bytes:
			expr = "base64Encode(" + quote(c.name) + ")"
		case datatype.Untyped, datatype.String:
			expr = "hex(" + quote(c.name) + ")" // the response is JSON
		}
		if _, _, ok := typ.DecimalOf(); ok {
			scale := strings.TrimSuffix(string(typ[strings.Index(string(typ), ",")+1:]), ")")
			expr = "toDecimalString(" + quote(c.name) + ", " + scale + ")"
		}
		exprs, types = append(exprs, expr), append(types, typ)
	}
	if exprs == nil {
		return nil
	}
	var all [][]string
	for _, row := range server.Rows(tb, "SELECT "+strings.Join(exprs, ", ")+" FROM "+name) {
		texts := make([]string, len(row))
		for i, cell := range row {
			switch {
			case cell == nil:
				texts[i] = buffertest.Null
			case types[i] == datatype.Float64:
				f, err := strconv.ParseFloat(*cell, 64)
				if err != nil {
					tb.Fatal(err)
				}
				texts[i] = string(datatype.AppendFloat64(nil, f))
			case types[i] == datatype.Untyped || types[i] == datatype.String:
				data, err := hex.DecodeString(*cell)
				if err != nil {
					tb.Fatal(err)
				}
				texts[i] = string(data)
			default:
				texts[i] = *cell
			}
		}
		all = append(all, texts)
	}
	return all
}

// harness lets the suites use targets in databases of the server.
func harness(o Options) buffertest.TargetHarness {
	var last string
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			target := open(t, o)
			last = target.client.database
			return target
		},
		Reopen:    func(t *testing.T) driver.Target { return reopen(t, last, o) },
		Rows:      func(t *testing.T, table string) [][]string { return readTable(t, last, table) },
		Unordered: true,
		Typed:     true, ServerParses: true,
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
			server.Exec(t, "ALTER TABLE "+quote(last)+"."+quote(table)+" ADD CONSTRAINT `at most ``all``` CHECK `share, in percent` <= 100")
		}),
	}
}

func TestTarget(t *testing.T) { buffertest.Target(t, harness(Options{})) }

func TestKills(t *testing.T) { buffertest.Kills(t, harness(Options{})) }
