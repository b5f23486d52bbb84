package celltype_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/seedtest"
)

type convert = func(dst, text []byte) ([]byte, celltype.Reason)

func decimal(precision, scale int) convert {
	return func(dst, text []byte) ([]byte, celltype.Reason) {
		return celltype.AppendDecimal(dst, text, precision, scale)
	}
}

func converter(t datatype.Type, rules celltype.Rules) convert {
	c := celltype.NewConverter(t, rules, datatype.Limits{})
	return func(dst, text []byte) ([]byte, celltype.Reason) { return c.Append(dst, text, celltype.Number) }
}

func epoch(unit celltype.Epoch) convert {
	return func(dst, text []byte) ([]byte, celltype.Reason) { return celltype.AppendEpoch(dst, text, unit) }
}

func timestamp(assumeUTC bool) convert {
	return func(dst, text []byte) ([]byte, celltype.Reason) {
		return celltype.AppendTimestamp(dst, text, assumeUTC)
	}
}

// Each value has one reading or none. A want that begins with "!" is the reason why there is none.
func TestConversions(t *testing.T) {
	long := strings.Repeat("9", 100)
	for name, c := range map[string]struct {
		convert convert
		cases   map[string]string
	}{
		"bool": {celltype.AppendBool, map[string]string{
			"true": "true", "false": "false", "": "!emptyText", "1": "!malformed", "0": "!malformed", "TRUE": "!malformed", "t": "!malformed", " true": "!malformed",
		}},
		"int64": {celltype.AppendInt64, map[string]string{
			"0": "0", "-0": "0", "-0.0": "0", "7": "7", "1.0": "1", "1e3": "1000", "1E+3": "1000", "1200e-2": "12", "1.5e1": "15", "0e999999999999": "0", "0.000e-5": "0",
			"9007199254740993": "9007199254740993", "9223372036854775807": "9223372036854775807", "-9223372036854775808": "-9223372036854775808",
			"9223372036854775808": "!outOfRange", "-9223372036854775809": "!outOfRange", "18446744073709551616": "!outOfRange", long: "!outOfRange",
			"1e19": "!outOfRange", "1e18": "1000000000000000000", "1e999999999999999999999": "!outOfRange", "-1e999999999": "!outOfRange", "1e-999999999999999999999": "!notIntegral",
			"1.5": "!notIntegral", "1e-1": "!notIntegral", "": "!emptyText", "1 ": "!malformed", " 1": "!malformed", "٣": "!malformed", "+1": "!malformed", "01": "!malformed",
			"00": "!malformed", "-01": "!malformed", "0x10": "!malformed", "1_000": "!malformed", "1.": "!malformed", ".5": "!malformed", "1e": "!malformed", "1e+": "!malformed",
			"-": "!malformed", "NaN": "!malformed", "1,5": "!malformed", "1e1.0": "!malformed", "1\n": "!malformed", "null": "!malformed",
		}},
		"float64": {celltype.AppendFloat64, map[string]string{
			"0": "0", "-0": "-0", "-0.0": "-0", "1.50": "1.5", "1e3": "1000", "123.456": "123.456", "1e21": "1e+21", "1e20": "100000000000000000000", "0.000001": "0.000001",
			"0.0000001": "1e-7", "1.5e-10": "1.5e-10", "1e-400": "0", "-1e-400": "-0", "1e309": "!outOfRange", "-1e309": "!outOfRange", "5e-324": "5e-324", "1.7976931348623157e308": "1.7976931348623157e+308",
			"9007199254740993": "9007199254740992", "NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity", "nan": "!malformed", "inf": "!malformed", "+Infinity": "!malformed",
			"1_000": "!malformed", "0x1p-2": "!malformed", ".5": "!malformed", "5.": "!malformed", "00.5": "!malformed", "": "!emptyText", "+1": "!malformed", "1 ": "!malformed",
		}},
		"decimal(6,2)": {decimal(6, 2), map[string]string{
			"0": "0.00", "-0": "0.00", "-0.00": "0.00", "1": "1.00", "1.5": "1.50", "1.50000": "1.50", "-1.05": "-1.05", "9999.99": "9999.99", "10000": "!outOfRange", "1.005": "!tooPrecise",
			"1e-2": "0.01", "1e-3": "!tooPrecise", "123e1": "1230.00", "0e99999999999": "0.00", "1e99999999999": "!outOfRange", "1e-99999999999": "!tooPrecise", "0.05": "0.05", "12345e-2": "123.45",
			"": "!emptyText", "NaN": "!malformed", "1.": "!malformed", "01": "!malformed", "34.70": "34.70",
		}},
		"decimal(5,5)": {decimal(5, 5), map[string]string{"0.12345": "0.12345", "1": "!outOfRange", "-0.1": "-0.10000"}},
		"decimal(38,0)": {decimal(38, 0), map[string]string{
			strings.Repeat("9", 38): strings.Repeat("9", 38), strings.Repeat("9", 39): "!outOfRange", "1e37": "1" + strings.Repeat("0", 37), "0.1": "!tooPrecise",
		}},
		"decimal(38)": {decimal(38, celltype.AnyScale), map[string]string{
			"1.50": "1.5", "0.000": "0", "-12e-3": "-0.012", "1e2": "100", strings.Repeat("9", 38): strings.Repeat("9", 38), strings.Repeat("9", 39): "!outOfRange",
			"1." + strings.Repeat("1", 37): "1." + strings.Repeat("1", 37), "1." + strings.Repeat("1", 38): "!tooPrecise", "1e-39": "!tooPrecise", "1e-38": "0." + strings.Repeat("0", 37) + "1",
		}},
		"date": {celltype.AppendDate, map[string]string{
			"2024-02-29": "2024-02-29", "1900-02-29": "!outOfRange", "2000-02-29": "2000-02-29", "2023-02-29": "!outOfRange", "2024-04-31": "!outOfRange", "2024-13-01": "!outOfRange",
			"2024-00-10": "!outOfRange", "2024-01-00": "!outOfRange", "0001-01-01": "0001-01-01", "9999-12-31": "9999-12-31", "0000-12-31": "!outOfRange", "10000-01-01": "!malformed",
			"": "!emptyText", "2024-1-1": "!malformed", "2024-01-01T00:00:00Z": "!malformed", "2024/01/01": "!malformed", "20240101": "!malformed", "2024-01-01 ": "!malformed", "-024-01-01": "!malformed",
		}},
		"timestamp": {timestamp(false), map[string]string{
			"2026-11-22T23:00:00Z": "2026-11-22T23:00:00.000000Z", "2026-11-22t23:00:00z": "2026-11-22T23:00:00.000000Z", "2026-11-22 23:00:00Z": "2026-11-22T23:00:00.000000Z",
			"2026-11-22T23:00:00-05:00": "2026-11-23T04:00:00.000000Z", "2026-01-01T00:30:00+01:00": "2025-12-31T23:30:00.000000Z", "2026-11-22T23:00:00-00:00": "2026-11-22T23:00:00.000000Z",
			"2026-11-22T23:00:00.1234567Z": "2026-11-22T23:00:00.123456Z", "2026-11-22T23:00:00.9999999Z": "2026-11-22T23:00:00.999999Z", "1969-12-31T23:59:59.9999999Z": "1969-12-31T23:59:59.999999Z",
			"2026-11-22T23:00:00.5Z": "2026-11-22T23:00:00.500000Z", "2026-11-22T23:00:00": "!noZone", "2026-11-22T23:00:00.5": "!noZone", "2026-11-22T23:00:60Z": "!leapSecond",
			"2026-11-22T24:00:00Z": "!outOfRange", "2026-11-22T23:60:00Z": "!outOfRange", "2026-11-22T23:00:61Z": "!outOfRange", "2026-02-30T00:00:00Z": "!outOfRange",
			"0001-01-01T00:00:00Z": "0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00+01:00": "!outOfRange", "9999-12-31T23:59:59-01:00": "!outOfRange", "9999-12-31T23:59:59Z": "9999-12-31T23:59:59.000000Z",
			"0000-12-31T23:30:00-01:00": "0001-01-01T00:30:00.000000Z", "2026-11-22T23:00:00+24:00": "!outOfRange", "2026-11-22T23:00:00+99:99": "!outOfRange", "2026-11-22T23:00:00+23:60": "!outOfRange",
			"2026-11-22T23:00:00+0530": "!malformed", "2026-11-22T7:47:19Z": "!malformed", "2026-11-22T23:00:00,5Z": "!malformed", "2026-11-22T23:00:00.Z": "!malformed", "2026-11-22T23:00Z": "!malformed",
			"2026-11-22": "!malformed", "1700000000": "!malformed", "": "!emptyText", "2026-11-22T23:00:00Z ": "!malformed", "2026-11-22  23:00:00Z": "!malformed", "2000-02-29T23:59:59-00:01": "2000-03-01T00:00:59.000000Z",
		}},
		"timestamp, UTC assumed": {timestamp(true), map[string]string{
			"2026-11-22 23:00:00": "2026-11-22T23:00:00.000000Z", "2026-11-22T23:00:00.25": "2026-11-22T23:00:00.250000Z", "2026-11-22T23:00:00+01:00": "2026-11-22T22:00:00.000000Z",
		}},
	} {
		for text, want := range c.cases {
			got, reason := c.convert([]byte("x"), []byte(text))
			if reason != celltype.OK {
				if string(got) != "x" {
					t.Errorf("%s of %.60q: dst became %q", name, text, got)
				}
				got = []byte("x!" + string(reason))
			}
			if string(got[1:]) != want {
				t.Errorf("%s of %.60q is %q, want %q", name, text, got[1:], want)
			}
		}
	}
}

// What is no cell of an int64 is no cell of the wider decimal.
func TestWidened(t *testing.T) {
	for cell, want := range map[string]string{
		"0": "0.00", "-7": "-7.00", "9223372036854775807": "9223372036854775807.00", "": "", "1.5": "", "1e3": "", "-0": "", "007": "", "x": "",
	} {
		got := celltype.AppendWidened([]byte("x"), []byte(cell), 2)[1:]
		if _, _, err := datatype.ParseDecimal(got, 38, 2); (err == nil) != (want != "") || want != "" && string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", cell, got, err, want)
		}
	}
	if got := celltype.AppendWidened(nil, []byte("12"), 0); string(got) != "12" {
		t.Errorf("got %q without a scale, want 12", got)
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]celltype.Reason{
		"": celltype.OK, "abc": celltype.OK, "žluť": celltype.TooLong, "žlu": celltype.OK, "abcd": celltype.TooLong, "\xe9": celltype.NotUTF8, "\xed\xa0\x80": celltype.NotUTF8,
	} {
		if got := celltype.CheckText([]byte(text), 3); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := celltype.CheckText([]byte(strings.Repeat("x", 1000)), 0); got != celltype.OK {
		t.Errorf("without a limit: %q", got)
	}
}

// checkNumber compares with the standard library, which is exact but accepts more than JSON's grammar.
func checkNumber(t *testing.T, text string) {
	t.Helper()
	isNumber := json.Valid([]byte(text)) && text[0] != '"' && (text[0] == '-' || text[0]-'0' <= 9) && strings.TrimSpace(text) == text
	for name, c := range map[string]convert{
		"int64": celltype.AppendInt64, "float64": celltype.AppendFloat64, "decimal": decimal(20, 5), "any": decimal(38, celltype.AnyScale),
		"rounded": converter("decimal(20,5)", celltype.Rules{Round: true}), "s": epoch("s"), "ms": epoch("ms"), "us": epoch("us"), "ns": epoch("ns"),
	} {
		got, reason := c(nil, []byte(text))
		if !isNumber {
			if reason != celltype.Malformed && reason != celltype.EmptyText && text != "NaN" && text != "Infinity" && text != "-Infinity" {
				t.Errorf("%s of %q, which is no number: %q %q", name, text, got, reason)
			}
			continue
		}
		if name == "float64" {
			want, err := strconv.ParseFloat(text, 64)
			if errors.Is(err, strconv.ErrRange) {
				if reason != celltype.OutOfRange {
					t.Errorf("float64 of %q: %q %q, want outOfRange", text, got, reason)
				}
				continue
			}
			back, err := strconv.ParseFloat(string(got), 64)
			if reason != celltype.OK || err != nil || math.Float64bits(back) != math.Float64bits(want) {
				t.Errorf("float64 of %q: %q %q, want %v", text, got, reason, want)
			}
			if js, _ := json.Marshal(want); string(js) != string(got) {
				t.Errorf("float64 of %q: %q, encoding/json writes %q", text, got, js)
			}
			continue
		}
		checkExact(t, name, text, string(got), reason)
	}
}

// checkExact compares with rational numbers. Exponents that are too large for those are in the table of TestConversions.
func checkExact(t *testing.T, name, text, got string, reason celltype.Reason) {
	t.Helper()
	if _, exp, found := strings.Cut(strings.ToLower(text), "e"); found {
		if n, err := strconv.Atoi(exp); err != nil || n > 400 || n < -400 {
			return
		}
	}
	want, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is a number for encoding/json alone", text)
	}
	ten := func(n int64) *big.Rat {
		return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil))
	}
	var fits bool
	switch name {
	case "rounded":
		want = rounded(want, 5)
		fits = new(big.Rat).Abs(want).Cmp(ten(15)) < 0
	case "s", "ms", "us", "ns":
		checkEpoch(t, name, text, got, reason, want)
		return
	case "int64":
		fits = want.IsInt() && want.Num().IsInt64()
	case "decimal":
		fits = new(big.Rat).Mul(want, ten(5)).IsInt() && new(big.Rat).Abs(want).Cmp(ten(15)) < 0
	case "any":
		digits := strings.TrimLeft(strings.ReplaceAll(strings.TrimLeft(want.FloatString(500), "-"), ".", ""), "0")
		digits = strings.TrimRight(digits, "0")
		fits = new(big.Rat).Mul(want, ten(38)).IsInt() && new(big.Rat).Abs(want).Cmp(ten(38)) < 0 && (want.IsInt() || wholeAndFraction(want) <= 38) && len(digits) <= 38
	}
	if fits != (reason == celltype.OK) {
		t.Errorf("%s of %q: got %q and the reason %q, and it fits: %v", name, text, got, reason, fits)
		return
	}
	if !fits {
		return
	}
	if back, ok := new(big.Rat).SetString(got); !ok || back.Cmp(want) != 0 {
		t.Errorf("%s of %q is %q", name, text, got)
	}
	form := want.FloatString(map[string]int{"int64": 0, "decimal": 5, "rounded": 5, "any": 38}[name])
	if name == "any" {
		form = strings.TrimRight(strings.TrimRight(form, "0"), ".")
	}
	if got != form {
		t.Errorf("%s of %q is %q, want %q", name, text, got, form)
	}
}

// rounded returns the nearest number with places digits after the point, and of two the one with an even last digit.
func rounded(r *big.Rat, places int64) *big.Rat {
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(places), nil))
	shifted := new(big.Rat).Mul(r, scale)
	below := new(big.Int).Div(shifted.Num(), shifted.Denom()) // Euclidean is floor, because the denominator is positive
	twice := new(big.Rat).Sub(shifted, new(big.Rat).SetInt(below))
	switch twice.Mul(twice, big.NewRat(2, 1)).Cmp(big.NewRat(1, 1)) {
	case 1:
		below.Add(below, big.NewInt(1))
	case 0:
		below.Add(below, big.NewInt(int64(below.Bit(0))))
	}
	return new(big.Rat).Quo(new(big.Rat).SetInt(below), scale)
}

// checkEpoch compares with package time and rational numbers.
func checkEpoch(t *testing.T, unit, text, got string, reason celltype.Reason, value *big.Rat) {
	t.Helper()
	perUnit := map[string]*big.Rat{"s": big.NewRat(1e6, 1), "ms": big.NewRat(1e3, 1), "us": big.NewRat(1, 1), "ns": big.NewRat(1, 1e3)}[unit]
	value = new(big.Rat).Mul(value, perUnit)
	micros := new(big.Int).Div(value.Num(), value.Denom())
	want := ""
	if micros.IsInt64() {
		if at := time.UnixMicro(micros.Int64()).UTC(); at.Year() >= 1 && at.Year() <= 9999 {
			want = at.Format("2006-01-02T15:04:05.000000Z")
		}
	}
	if want != got || (want == "") != (reason == celltype.OutOfRange) {
		t.Errorf("%s of %q is %q %s, want %q", unit, text, got, reason, want)
	}
}

// wholeAndFraction is how many digits a number needs before and after its point.
func wholeAndFraction(r *big.Rat) int {
	whole, frac, _ := strings.Cut(strings.TrimLeft(r.FloatString(500), "-"), ".")
	return len(strings.TrimLeft(whole, "0")) + len(strings.TrimRight(frac, "0"))
}

func TestNumbersAsLibrary(t *testing.T) {
	r := seedtest.Rand(t)
	alphabet := []string{"0", "0", "00", "1", "9", "5", "-", ".", "e", "E", "+", "12", "999999999", "922337203685477580", "7", "8", " ", "x"}
	for range 10_000 {
		var b strings.Builder
		for range 1 + r.IntN(8) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		checkNumber(t, b.String())
		checkNumber(t, strconv.FormatFloat(math.Float64frombits(r.Uint64()), byte("efg"[r.IntN(3)]), r.IntN(20)-1, 64))
		checkNumber(t, strconv.FormatInt(int64(r.Uint64())>>r.IntN(64), 10))
		if t.Failed() {
			return
		}
	}
}

// checkTimestamp compares with time.Parse, except for what that accepts beyond RFC 3339.
func checkTimestamp(t *testing.T, text string) {
	t.Helper()
	got, reason := celltype.AppendTimestamp(nil, []byte(text), false)
	if reason == celltype.OK {
		at, err := time.Parse(time.RFC3339Nano, strings.ToUpper(strings.Replace(text, " ", "T", 1)))
		if err != nil {
			t.Errorf("%q is %q, the library says %v", text, got, err)
			return
		}
		if want := at.UTC().Truncate(time.Microsecond).Format("2006-01-02T15:04:05.000000Z"); want != string(got) {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		again, reason := celltype.AppendTimestamp(nil, got, false)
		if reason != celltype.OK || string(again) != string(got) {
			t.Errorf("the cell %q becomes %q %q", got, again, reason)
		}
		checkUnits(t, text, at)
		return
	}
	if reason == celltype.LeapSecond {
		checkLeapSecond(t, text)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	lenient := strings.Contains(text, ",") || strings.Contains(text, "+24:") || strings.Contains(text, "-24:") || strings.HasSuffix(text, ":60") || len(text) > 12 && text[12] == ':'
	if err == nil && !lenient && at.UTC().Year() >= 1 && at.UTC().Year() <= 9999 {
		t.Errorf("%q: got %s, want it accepted, because the library reads %v", text, reason, at)
	}
}

// checkUnits compares the numbers of a time with the numbers of package time.
func checkUnits(t *testing.T, text string, at time.Time) {
	t.Helper()
	for unit, want := range map[celltype.Epoch]int64{"s": at.Unix(), "ms": at.UnixMilli(), "us": at.UnixMicro(), "ns": at.UnixNano()} {
		got, reason := celltype.AppendUnits(nil, []byte(text), unit)
		if unit == "ns" && !time.Unix(0, want).Equal(at) {
			if reason != celltype.OutOfRange {
				t.Errorf("%q in ns is %q %q, beyond int64, want %v", text, got, reason, celltype.OutOfRange)
			}
		} else if reason != celltype.OK || string(got) != strconv.FormatInt(want, 10) {
			t.Errorf("%q in %s is %q %q, want %d", text, unit, got, reason, want)
		}
	}
}

// checkLeapSecond compares with the second before, as package time reads it. A leap second is the last of a month in UTC.
func checkLeapSecond(t *testing.T, text string) {
	t.Helper()
	got, reason := celltype.AppendLeapSecond([]byte("x"), []byte(text), false)
	at, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text[:10]+"T"+text[11:17]+"59"+text[19:]))
	at = at.UTC().Truncate(time.Second)
	last := err == nil && at.Year() >= 1 && at.Add(time.Second).Day() == 1 && at.Add(time.Second).Truncate(24*time.Hour).Equal(at.Add(time.Second))
	want := "x"
	if last {
		want += at.Format("2006-01-02T15:04:05") + ".999999Z"
	}
	if string(got) != want || (reason == celltype.OK) != last {
		t.Errorf("%q: got %q %s, want %q", text, got, reason, want)
	}
}

func TestTimesAsLibrary(t *testing.T) {
	r := seedtest.Rand(t)
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	for i := range 10_000 {
		zone := time.FixedZone("", (r.IntN(2*24*60-1)-24*60+1)*60)
		at := time.Unix(first+r.Int64N(last-first), r.Int64N(1e9)).In(zone)
		if at.Year() < 0 || at.Year() > 9999 {
			continue
		}
		text := at.Format(time.RFC3339Nano)
		checkTimestamp(t, text)
		spoiled := []byte(text)
		spoiled[r.IntN(len(spoiled))] = "0123456789:-+TZ. ,tz"[r.IntN(20)]
		checkTimestamp(t, string(spoiled))
		if at.Year() > 0 && i%2 == 0 { // the end of the month in UTC
			at = time.Date(at.UTC().Year(), at.UTC().Month()+1, 1, 0, 0, 0, at.Nanosecond(), time.UTC).Add(-time.Second).In(zone)
		}
		if at.Year() > 0 && at.Year() <= 9999 { // the last month may end in another year of the zone
			leap, day := at.Format(time.RFC3339Nano), at.Format(time.DateOnly)
			checkLeapSecond(t, leap[:17]+"60"+leap[19:])
			if got, reason := celltype.AppendDate(nil, []byte(day)); string(got) != day {
				t.Errorf("date %q: %q %q", day, got, reason)
			}
		}
		if t.Failed() {
			return
		}
	}
}

func TestConversionsDoNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 64)
	for name, c := range map[string]struct {
		convert convert
		text    string
	}{
		"int64": {celltype.AppendInt64, "1700000000000"}, "int64, refused": {celltype.AppendInt64, "99999999999999999999"},
		"float64": {celltype.AppendFloat64, "3.14159265358979323846264338327950288419716939937510"}, "float64, refused": {celltype.AppendFloat64, "x"},
		"decimal": {decimal(38, 10), "12345678901234567890.123"}, "timestamp": {timestamp(false), "2026-11-22T23:00:00.123-05:00"},
		"leap second": {func(dst, text []byte) ([]byte, celltype.Reason) { return celltype.AppendLeapSecond(dst, text, false) }, "2017-01-01T05:29:60.123456789+05:30"},
		"date":        {celltype.AppendDate, "2026-11-22"},
		"nanoseconds": {converter(datatype.Int64, celltype.Rules{Epoch: "ns"}), "2026-11-22T23:00:00.123456789Z"},
	} {
		text := []byte(c.text)
		if n := testing.AllocsPerRun(100, func() { _, _ = c.convert(dst, text) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}

func FuzzNumber(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{"0", "-1.5e3", "1e-400", "922337203685477580.7e1", "01", "1e", "NaN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) < 200 {
			checkNumber(t, s)
		}
	})
}

func FuzzTimestamp(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{"2026-11-22T23:00:00Z", "2026-11-22 23:00:00.5-05:00", "0000-12-31T23:59:59-23:59", "2026-11-22T7:47:19Z", "2017-01-01T05:29:60.5+05:30", "2026-11-22 23:00:00.5-05:04"} {
		f.Add(s)
	}
	f.Fuzz(checkTimestamp)
}
