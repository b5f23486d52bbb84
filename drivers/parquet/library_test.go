package parquet_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/seedtest"
)

// libraryType is a type as a user of the library stores it, and its values.
type libraryType struct {
	typ   datatype.Type
	node  pq.Node
	value func(cell string) (pq.Value, error)
	cells []string // the extremes
	cell  func(rng *rand.Rand) string
}

func libraryTypes() []libraryType {
	text := func(cell string) (pq.Value, error) { return pq.ByteArrayValue([]byte(cell)), nil }
	texts := []string{"", " ", "null", "a\r\nb", `"`, "a\x00b", "日本語", strings.Repeat("long", 20_000)}
	anyText := func(rng *rand.Rand) string { return strings.Repeat(string(rune('a'+rng.IntN(200))), rng.IntN(100)) }
	types := []libraryType{
		{datatype.Untyped, pq.String(), text, texts, anyText},
		{datatype.String, pq.String(), text, texts, func(rng *rand.Rand) string { return []string{"view", "click"}[rng.IntN(2)] }},
		{datatype.JSON, pq.JSON(), text, []string{"{}", `""`, "null"}, func(rng *rand.Rand) string { return fmt.Sprintf(`{"n":%d}`, rng.Uint32()) }},
		{
			datatype.Bytes, pq.Leaf(pq.ByteArrayType),
			func(cell string) (pq.Value, error) {
				b, err := base64.StdEncoding.DecodeString(cell)
				return pq.ByteArrayValue(b), err
			},
			[]string{"", "AA==", "/////w=="},
			func(rng *rand.Rand) string {
				return base64.StdEncoding.EncodeToString([]byte(anyText(rng)))
			},
		},
		{
			datatype.Bool, pq.Leaf(pq.BooleanType),
			func(cell string) (pq.Value, error) { return pq.BooleanValue(cell == "true"), nil },
			[]string{"true", "false"},
			func(rng *rand.Rand) string { return fmt.Sprint(rng.IntN(2) == 0) },
		},
		{
			datatype.Int64, pq.Int(64),
			func(cell string) (pq.Value, error) {
				n, err := strconv.ParseInt(cell, 10, 64)
				return pq.Int64Value(n), err
			},
			[]string{"0", "-1", "9223372036854775807", "-9223372036854775808"},
			func(rng *rand.Rand) string { return fmt.Sprint(int64(rng.Uint64()) >> rng.IntN(64)) },
		},
		{
			datatype.Float64, pq.Leaf(pq.DoubleType),
			func(cell string) (pq.Value, error) {
				f, err := strconv.ParseFloat(cell, 64)
				return pq.DoubleValue(f), err
			},
			[]string{"0", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e+308", "-1.7976931348623157e+308"},
			func(rng *rand.Rand) string {
				return string(datatype.AppendFloat64(nil, math.Float64frombits(rng.Uint64())))
			},
		},
		{
			datatype.Timestamp, pq.Timestamp(pq.Microsecond),
			func(cell string) (pq.Value, error) {
				at, err := time.Parse(time.RFC3339Nano, cell)
				return pq.Int64Value(at.UnixMicro()), err
			},
			[]string{"0001-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"},
			func(rng *rand.Rand) string {
				return time.UnixMicro(rng.Int64N(2e15)).UTC().Format("2006-01-02T15:04:05.000000Z")
			},
		},
		{
			datatype.Date, pq.Date(),
			func(cell string) (pq.Value, error) {
				at, err := time.Parse(time.DateOnly, cell)
				return pq.Int32Value(int32(at.Unix() / 86_400)), err
			},
			[]string{"0001-01-01", "1970-01-01", "9999-12-31"},
			func(rng *rand.Rand) string {
				return time.Unix(rng.Int64N(4e9), 0).UTC().Format(time.DateOnly)
			},
		},
		{
			datatype.UUID, pq.UUID(),
			func(cell string) (pq.Value, error) {
				b, err := hex.DecodeString(strings.ReplaceAll(cell, "-", ""))
				return pq.FixedLenByteArrayValue(b), err
			},
			[]string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
			func(rng *rand.Rand) string { return fmt.Sprintf("%08x-0000-4000-8000-00000000000f", rng.Uint32()) },
		},
	}
	for _, d := range []struct{ precision, scale int }{{1, 1}, {9, 0}, {9, 2}, {10, 10}, {18, 3}, {19, 0}, {38, 10}, {38, 38}} {
		types = append(types, libraryDecimal(d.precision, d.scale))
	}
	return types
}

func libraryDecimal(precision, scale int) libraryType {
	physical := pq.FixedLenByteArrayType(16)
	switch {
	case precision <= 9:
		physical = pq.Int32Type
	case precision <= 18:
		physical = pq.Int64Type
	}
	// number writes an integer as a cell, so that the last digits follow the decimal point.
	number := func(n *big.Int) string {
		digits := new(big.Int).Abs(n).String()
		digits = strings.Repeat("0", max(0, scale+1-len(digits))) + digits
		if scale > 0 {
			digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
		}
		if n.Sign() < 0 {
			return "-" + digits
		}
		return digits
	}
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	most.Sub(most, big.NewInt(1))
	return libraryType{
		datatype.Decimal(precision, scale), pq.Decimal(scale, precision, physical),
		func(cell string) (pq.Value, error) {
			n, ok := new(big.Int).SetString(strings.Replace(cell, ".", "", 1), 10)
			if !ok {
				return pq.Value{}, fmt.Errorf("%q is no number", cell)
			}
			switch {
			case precision <= 9:
				return pq.Int32Value(int32(n.Int64())), nil
			case precision <= 18:
				return pq.Int64Value(n.Int64()), nil
			}
			if n.Sign() < 0 { // two's complement
				n.Add(n, new(big.Int).Lsh(big.NewInt(1), 128))
			}
			return pq.FixedLenByteArrayValue(n.FillBytes(make([]byte, 16))), nil
		},
		[]string{number(new(big.Int)), number(big.NewInt(1)), number(big.NewInt(-1)), number(most), number(new(big.Int).Neg(most))},
		func(rng *rand.Rand) string {
			n := new(big.Int).Mod(new(big.Int).SetUint64(rng.Uint64()), most)
			if rng.IntN(2) == 0 {
				n.Neg(n)
			}
			return number(n)
		},
	}
}

// writeWithLibrary writes rows with the library's own writer.
func writeWithLibrary(path string, types []libraryType, columns []datatype.Column, rows [][]string) error {
	group := pq.Group{}
	for i, c := range columns {
		if group[c.Name] = types[i].node; nullable(c) {
			group[c.Name] = pq.Optional(types[i].node)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := pq.NewGenericWriter[any](f, pq.NewSchema("table", group))
	for _, row := range rows {
		var values pq.Row
		for i, cell := range row {
			if cell == buffertest.Null {
				values = append(values, pq.NullValue().Level(0, 0, i))
				continue
			}
			v, err := types[i].value(cell)
			if err != nil {
				return err
			}
			level := 0
			if nullable(columns[i]) {
				level = 1
			}
			values = append(values, v.Level(0, level, i))
		}
		if _, err := w.WriteRows([]pq.Row{values}); err != nil {
			return err
		}
	}
	return w.Close()
}

func nullable(c datatype.Column) bool { return c.Type != datatype.Untyped && !c.Required }

// The library reads the rows of a part unchanged, and has the same schema and rows in a file that its own writer wrote, of all types,
// with extreme values, with no, some and only NULL, with no row, with one and with several row groups.
func TestPartsAreAsTheLibraryWrites(t *testing.T) {
	t.Parallel()
	rng := seedtest.Rand(t)
	types := libraryTypes()
	for round, n := range []int{0, 1, 2, 7, 8, 9, 64, 65, 300, 2000} {
		var columns []datatype.Column
		for i, typ := range types { // the library orders columns by name
			columns = append(columns, datatype.Column{Name: fmt.Sprintf("c%02d", i), Type: typ.typ, Required: rng.IntN(3) == 0})
		}
		nulls := []int{0, 10, 100}[rng.IntN(3)] // percent
		var rows [][]string
		for range n {
			var row []string
			for i, typ := range types {
				switch {
				case nullable(columns[i]) && rng.IntN(100) < nulls:
					row = append(row, buffertest.Null)
				case rng.IntN(n+3) < 2*len(typ.cells):
					row = append(row, typ.cells[rng.IntN(len(typ.cells))])
				default:
					row = append(row, typ.cell(rng))
				}
			}
			rows = append(rows, row)
		}
		what := fmt.Sprintf("%d rows, %d %% NULL", n, nulls)
		options := parquet.Options{
			RowGroup:    []int64{1, 7, 100, 0}[max(rng.IntN(4), round-6)],
			Compression: []parquet.Compression{parquet.Zstd, parquet.Snappy, parquet.Plain}[rng.IntN(3)],
		}
		target := mustTables(t, t.TempDir(), options)
		drivertest.Import(t, target, fileOf("file-1", driver.Table{ID: "events", Columns: columns}, rows...))
		theirs := filepath.Join(t.TempDir(), "theirs.parquet")
		if err := writeWithLibrary(theirs, types, columns, rows); err != nil {
			t.Fatalf("%s: got %v, want no error", what, err)
		}
		read, err := parquettest.ReadPart(theirs, columns)
		if err != nil {
			t.Fatalf("%s: got %v, want no error", what, err)
		}
		expectSame(t, what+", by the library", read, rows)
		expectSame(t, what, rowsOf(t, target, "events"), rows)
		for _, part := range partsOf(t, target, "events") {
			if ours, want := schemaOf(t, part), schemaOf(t, theirs); ours != want {
				t.Errorf("%s: the schema is\n%s\nthe library has\n%s", what, ours, want)
			}
		}
	}
}

func expectSame(t *testing.T, what string, got, want [][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("got %s: row %d is\n%.2000q\nwant\n%.2000q", what, i, got[i], want[i])
		}
	}
}

// schemaOf returns the schema of a part as the library prints it.
func schemaOf(t *testing.T, path string) string {
	t.Helper()
	p := opened(t, path)
	return p.Schema().String()
}
