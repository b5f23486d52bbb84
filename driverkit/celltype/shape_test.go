package celltype_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/internal/seedtest"
)

func TestLevelsAndNumbersOfADocument(t *testing.T) {
	levels, numbers := datatype.Limits{MaxDepth: 3}, datatype.Limits{NumberDigits: 4, NumberScale: 2}
	for _, c := range []struct {
		limits datatype.Limits
		text   string
		want   celltype.Reason
	}{
		{levels, `[[[1]]]`, celltype.OK},
		{levels, `[[[[1]]]]`, celltype.TooDeep},
		{levels, `[[],[],[],[],[[],[]]]`, celltype.OK},
		{levels, `{"a":{"b":{"c":{}}}}`, celltype.TooDeep},
		{levels, `{"[[[[":["{{{{\"[[[[\\\\","\\"]}`, celltype.OK},
		{levels, `{"a\\":[[[]]]}`, celltype.TooDeep},
		{numbers, `[9999,-9999.99,0.01,1e3,99E2,0.001e4,10e-3]`, celltype.OutOfRange}, // 10e-3 has three digits after its point
		{numbers, `[9999,-9999.99,0.01,1e3,99E2,0.01e4,10e-1]`, celltype.OK},
		{numbers, `10000`, celltype.OutOfRange},
		{numbers, `{"a":-1E+4}`, celltype.OutOfRange},
		{numbers, `0.00001e9`, celltype.OutOfRange},
		{numbers, `0.001`, celltype.OutOfRange},
		{numbers, `[0e9,0.00e99]`, celltype.OK},
		{numbers, `0e99999999999999999999`, celltype.OutOfRange},
		{numbers, `1e-99999999999999999999`, celltype.OutOfRange},
		{numbers, `"1e99"`, celltype.OK},
		{numbers, `["\"1e99",true,null]`, celltype.OK},
	} {
		conv := celltype.NewConverter(datatype.JSON, celltype.Rules{}, c.limits)
		if got := conv.CheckDocument([]byte(c.text)); got != c.want {
			t.Errorf("%s with %+v: got %q, want %q", c.text, c.limits, got, c.want)
		}
	}
	conv := celltype.NewConverter(datatype.String, celltype.Rules{}, levels)
	if got := conv.CheckDocument([]byte(`[[[[1]]]]`)); got != celltype.OK {
		t.Errorf("a text column: %q, want no bound for levels", got)
	}
}

// Numbers agree with a count of the digits that the number has when it is written out.
func TestDigitsOfNumbers(t *testing.T) {
	rng := seedtest.Rand(t)
	limits := datatype.Limits{NumberDigits: 5, NumberScale: 4}
	conv := celltype.NewConverter(datatype.JSON, celltype.Rules{}, limits)
	pick := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
	for range 20_000 {
		text := pick("", "-") + pick("0", "1", "70", "123", "90000", "123456")
		if rng.IntN(2) == 0 {
			text += pick(".0", ".5", ".00", ".001", ".00012", ".1234")
		}
		shift := 0
		if rng.IntN(2) == 0 {
			e := pick("0", "1", "+2", "-1", "-3", "6", "07", "-05")
			text += pick("e", "E") + e
			for sign, i := 1, 0; i < len(e); i++ {
				if e[i] == '-' {
					sign = -1
				} else if e[i] != '+' {
					shift = sign * (10*max(shift, -shift) + int(e[i]-'0'))
				}
			}
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%s is not JSON", text)
		}
		value, _ := new(big.Rat).SetString(text)
		whole := strings.TrimLeft(new(big.Int).Quo(value.Num(), value.Denom()).String(), "-0")
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		_, fraction, _ := strings.Cut(mantissa, ".")
		want := celltype.OK
		if len(whole) > limits.NumberDigits || len(fraction)-shift > limits.NumberScale {
			want = celltype.OutOfRange
		}
		if got := conv.CheckDocument([]byte(text)); got != want {
			t.Fatalf("%s: got %q, want %q: %d digits before the point, %d after it", text, got, want, len(whole), len(fraction)-shift)
		}
	}
}
