package datatype_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/fuzztest"
)

// parse reads a cell with the function of its type and returns the value as text.
func parse(typ datatype.Type, cell []byte) (value string, err error) {
	var v any
	switch typ {
	case datatype.Bool:
		v, err = datatype.ParseBool(cell)
	case datatype.Int64:
		v, err = datatype.ParseInt64(cell)
	case datatype.Float64:
		v, err = datatype.ParseFloat64(cell)
	case datatype.Timestamp:
		v, err = datatype.ParseTimestamp(cell)
	case datatype.Date:
		v, err = datatype.ParseDate(cell)
	case datatype.UUID:
		var id [16]byte
		id, err = datatype.ParseUUID(cell)
		v = fmt.Sprintf("%x", id[:])
	case datatype.Bytes:
		var b []byte
		b, err = datatype.AppendBytes([]byte("before "), cell)
		v = string(b)
	default:
		p, s, _ := typ.DecimalOf()
		var hi int64
		var lo uint64
		hi, lo, err = datatype.ParseDecimal(cell, p, s)
		n := new(big.Int).Lsh(big.NewInt(hi), 64)
		v = n.Add(n, new(big.Int).SetUint64(lo))
	}
	return fmt.Sprint(v), err
}

var (
	nines        = strings.Repeat("9", datatype.MaxPrecision)
	decimal62    = datatype.Decimal(6, 2)
	decimal220   = datatype.Decimal(22, 0)
	decimal3838  = datatype.Decimal(38, 38)
	widestNumber = datatype.Decimal(38, 0)
)

var cells = []struct {
	typ  datatype.Type
	cell string
	want string // empty: refused
}{
	{datatype.Bool, "true", "true"},
	{datatype.Bool, "false", "false"},
	{datatype.Bool, "TRUE", ""},
	{datatype.Bool, "t", ""},
	{datatype.Bool, "", ""},

	{datatype.Int64, "0", "0"},
	{datatype.Int64, "-1", "-1"},
	{datatype.Int64, "9223372036854775807", "9223372036854775807"},
	{datatype.Int64, "-9223372036854775808", "-9223372036854775808"},
	{datatype.Int64, "9223372036854775808", ""},
	{datatype.Int64, "-9223372036854775809", ""},
	{datatype.Int64, "18446744073709551617", ""},
	{datatype.Int64, "99999999999999999999", ""},
	{datatype.Int64, "-0", ""},
	{datatype.Int64, "01", ""},
	{datatype.Int64, "-01", ""},
	{datatype.Int64, "+1", ""},
	{datatype.Int64, "1.0", ""},
	{datatype.Int64, "1 ", ""},
	{datatype.Int64, "1_0", ""},
	{datatype.Int64, "-", ""},
	{datatype.Int64, "", ""},

	{datatype.Float64, "0", "0"},
	{datatype.Float64, "-0", "-0"},
	{datatype.Float64, "1.5", "1.5"},
	{datatype.Float64, "100000000000000000000", "1e+20"},
	{datatype.Float64, "1e+21", "1e+21"},
	{datatype.Float64, "1e-7", "1e-07"},
	{datatype.Float64, "5e-324", "5e-324"},
	{datatype.Float64, "-0.0000012345678901234567", "-1.2345678901234567e-06"},
	{datatype.Float64, "NaN", "NaN"},
	{datatype.Float64, "Infinity", "+Inf"},
	{datatype.Float64, "-Infinity", "-Inf"},
	{datatype.Float64, "1.50", ""},
	{datatype.Float64, "1e-07", ""},
	{datatype.Float64, "1e21", ""},
	{datatype.Float64, "1000000000000000000000", ""},
	{datatype.Float64, "0.0000001", ""},
	{datatype.Float64, "1e309", ""},
	{datatype.Float64, "nan", ""},
	{datatype.Float64, "+Infinity", ""},
	{datatype.Float64, "0x1p-2", ""},
	{datatype.Float64, "1." + strings.Repeat("0", 40), ""},
	{datatype.Float64, "", ""},

	{decimal62, "0.00", "0"},
	{decimal62, "1.50", "150"},
	{decimal62, "-0.01", "-1"},
	{decimal62, "9999.99", "999999"},
	{decimal62, "10000.00", ""},
	{decimal62, "-0.00", ""},
	{decimal62, "1.5", ""},
	{decimal62, "1.500", ""},
	{decimal62, "01.50", ""},
	{decimal62, ".50", ""},
	{decimal62, "150", ""},
	{decimal62, "1,50", ""},
	{decimal62, "1.5x", ""},
	{decimal62, "-", ""},
	{decimal62, "", ""},
	{decimal220, "18446744073709551616", "18446744073709551616"},
	{decimal220, "-9999999999999999999999", "-9999999999999999999999"},
	{decimal220, "0", "0"},
	{decimal220, "1.", ""},
	{decimal220, "00", ""},
	{decimal3838, "-0." + nines, "-" + nines},
	{decimal3838, "1." + nines, ""},
	{widestNumber, nines, nines},
	{widestNumber, nines + "9", ""},

	{datatype.Timestamp, "1970-01-01T00:00:00.000000Z", "0"},
	{datatype.Timestamp, "1969-12-31T23:59:59.999999Z", "-1"},
	{datatype.Timestamp, "2026-11-22T23:01:02.123456Z", "1795388462123456"},
	{datatype.Timestamp, "0001-01-01T00:00:00.000000Z", "-62135596800000000"},
	{datatype.Timestamp, "9999-12-31T23:59:59.999999Z", "253402300799999999"},
	{datatype.Timestamp, "0000-12-31T23:59:59.999999Z", ""},
	{datatype.Timestamp, "2026-11-22T24:00:00.000000Z", ""},
	{datatype.Timestamp, "2026-11-22T23:59:60.000000Z", ""},
	{datatype.Timestamp, "2026-11-22T23:01:02Z", ""},
	{datatype.Timestamp, "2026-11-22T23:01:02.12345Z", ""},
	{datatype.Timestamp, "2026-11-22T23:01:02.1234x6Z", ""},
	{datatype.Timestamp, "2026-11-22t23:01:02.123456z", ""},
	{datatype.Timestamp, "", ""},

	{datatype.Date, "1970-01-01", "0"},
	{datatype.Date, "0001-01-01", "-719162"},
	{datatype.Date, "9999-12-31", "2932896"},
	{datatype.Date, "2000-02-29", "11016"},
	{datatype.Date, "1900-02-29", ""},
	{datatype.Date, "2026-02-29", ""},
	{datatype.Date, "2026-04-31", ""},
	{datatype.Date, "2026-00-10", ""},
	{datatype.Date, "2026-13-10", ""},
	{datatype.Date, "2026-11-00", ""},
	{datatype.Date, "2026-11-32", ""},
	{datatype.Date, "0000-11-22", ""},
	{datatype.Date, "2026/11/22", ""},
	{datatype.Date, "2026-1-22", ""},
	{datatype.Date, "x026-11-22", ""},
	{datatype.Date, "", ""},

	{datatype.UUID, "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b", "0190a5b27c3d7e4f8a5b6c7d8e9f0a1b"},
	{datatype.UUID, "0190A5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b", ""},
	{datatype.UUID, "0190a5b27c3d-7e4f-8a5b-6c7d8e9f0a1b-", ""},
	{datatype.UUID, "0190a5b27c3d7e4f8a5b6c7d8e9f0a1b", ""},
	{datatype.UUID, "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1g", ""},

	{datatype.Bytes, "", "before "},
	{datatype.Bytes, "aGVsbG8=", "before hello"},
	{datatype.Bytes, "+/+/", "before \xfb\xff\xbf"},
	{datatype.Bytes, "aGVsbG8", ""},
	{datatype.Bytes, "-_-_", ""},
	{datatype.Bytes, "QR==", ""},
	{datatype.Bytes, "QUJD\n\n\n\n", ""},
	{datatype.Bytes, "QUJ\nD", ""},
}

func TestCells(t *testing.T) {
	for _, c := range cells {
		got, err := parse(c.typ, []byte(c.cell))
		var fault *datatype.CellError
		switch {
		case c.want == "":
			if !errors.As(err, &fault) || fault.Type != c.typ || !strings.HasPrefix(c.cell, fault.Cell) || len(fault.Cell) > 64 {
				t.Errorf("%s %q: got %s, %v, want a *CellError", c.typ, c.cell, got, err)
			}
		case got != c.want || err != nil:
			t.Errorf("%s %q: got %s, %v, want %s", c.typ, c.cell, got, err, c.want)
		}
	}
	_, err := datatype.ParseInt64([]byte(strings.Repeat("x", 1000)))
	if want := "a cell of type int64 has a text that is not canonical"; err.Error() != want { // nothing of the cell
		t.Errorf("got %v, want %s", err, want)
	}
	if fault := err.(*datatype.CellError); fault.Cell != strings.Repeat("x", 64) {
		t.Errorf("the cell is %q, want its first 64 bytes", fault.Cell)
	}
}

func TestCellsAllocateNothing(t *testing.T) {
	for _, c := range cells {
		if c.want == "" {
			continue
		}
		cell, dst := []byte(c.cell), make([]byte, 0, 64)
		p, s, isDecimal := c.typ.DecimalOf()
		if n := testing.AllocsPerRun(10, func() {
			switch {
			case isDecimal:
				_, _, _ = datatype.ParseDecimal(cell, p, s)
			case c.typ == datatype.Bool:
				_, _ = datatype.ParseBool(cell)
			case c.typ == datatype.Int64:
				_, _ = datatype.ParseInt64(cell)
			case c.typ == datatype.Float64:
				_, _ = datatype.ParseFloat64(cell)
			case c.typ == datatype.Timestamp:
				_, _ = datatype.ParseTimestamp(cell)
			case c.typ == datatype.Date:
				_, _ = datatype.ParseDate(cell)
			case c.typ == datatype.UUID:
				_, _ = datatype.ParseUUID(cell)
			case c.typ == datatype.Bytes:
				_, _ = datatype.AppendBytes(dst, cell)
			}
		}); n != 0 {
			t.Errorf("%s %q: got %v allocations, want 0", c.typ, c.cell, n)
		}
	}
}

// oracle reads a cell with the standard library, and demands that the value gives the same text again.
func oracle(typ datatype.Type, cell string) (value string, ok bool) {
	switch typ {
	case datatype.Int64:
		n, err := strconv.ParseInt(cell, 10, 64)
		return strconv.FormatInt(n, 10), err == nil && strconv.FormatInt(n, 10) == cell
	case datatype.Float64:
		f, err := strconv.ParseFloat(cell, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(f), cell == "NaN" || cell == "Infinity" || cell == "-Infinity"
		}
		format := byte('f')
		if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		text := strings.ReplaceAll(strconv.FormatFloat(f, format, -1, 64), "e-0", "e-")
		return fmt.Sprint(f), text == cell
	case datatype.Timestamp, datatype.Date:
		layout := time.DateOnly
		if typ == datatype.Timestamp {
			layout = "2006-01-02T15:04:05.000000Z"
		}
		at, err := time.Parse(layout, cell)
		if err != nil || at.Format(layout) != cell || at.Year() < 1 {
			return "", false
		}
		if typ == datatype.Date {
			return strconv.FormatInt(at.Unix()/86400, 10), true
		}
		return strconv.FormatInt(at.UnixMicro(), 10), true
	case datatype.Bytes:
		b, err := base64.StdEncoding.DecodeString(cell)
		return "before " + string(b), err == nil && base64.StdEncoding.EncodeToString(b) == cell
	default: // a decimal
		p, s, _ := typ.DecimalOf()
		text := cell
		if s > 0 {
			whole, frac, found := strings.Cut(cell, ".")
			if !found || len(frac) != s {
				return "", false
			}
			text = whole + frac
		}
		n, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return "", false
		}
		digits := fmt.Sprintf("%0*s", s+1, new(big.Int).Abs(n))
		back := digits[:len(digits)-s]
		if s > 0 {
			back += "." + digits[len(digits)-s:]
		}
		if n.Sign() < 0 {
			back = "-" + back
		}
		return n.String(), back == cell && len(n.Text(10))-len(strings.Trim(n.Text(10), "0123456789")) <= p
	}
}

func FuzzCell(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, c := range cells {
		f.Add(c.cell)
	}
	types := []datatype.Type{
		datatype.Int64, datatype.Float64, datatype.Timestamp, datatype.Date, datatype.Bytes,
		decimal62, decimal220, decimal3838, widestNumber, datatype.Decimal(18, 3),
	}
	f.Fuzz(func(t *testing.T, cell string) {
		for _, typ := range types {
			got, err := parse(typ, []byte(cell))
			want, ok := oracle(typ, cell)
			if ok != (err == nil) || ok && got != want {
				t.Errorf("%s %q: got %s, %v, want %s, %v", typ, cell, got, err, want, ok)
			}
		}
	})
}

func BenchmarkCell(b *testing.B) {
	bench := func(typ datatype.Type, cell string, parse func([]byte) error) {
		b.Run(string(typ), func(b *testing.B) {
			text := []byte(cell)
			b.ReportAllocs()
			for b.Loop() {
				if err := parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	bench(datatype.Int64, "1700000000123", func(c []byte) error { _, err := datatype.ParseInt64(c); return err })
	bench(datatype.Float64, "1234.5678", func(c []byte) error { _, err := datatype.ParseFloat64(c); return err })
	bench(datatype.Decimal(18, 2), "1234567.89", func(c []byte) error { _, _, err := datatype.ParseDecimal(c, 18, 2); return err })
	bench(datatype.Timestamp, "2026-11-22T23:01:02.123456Z", func(c []byte) error { _, err := datatype.ParseTimestamp(c); return err })
	bench(datatype.UUID, "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b", func(c []byte) error { _, err := datatype.ParseUUID(c); return err })
}

func ExampleParseTimestamp() {
	micros, err := datatype.ParseTimestamp([]byte("2026-11-22T23:01:02.123456Z"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(time.UnixMicro(micros).UTC())
	_, err = datatype.ParseTimestamp([]byte("2026-11-22T23:01:02Z"))
	fmt.Println(err)
	// Output:
	// 2026-11-22 23:01:02.123456 +0000 UTC
	// a cell of type timestamp has a text that is not canonical
}
