package tape

import (
	"strings"
	"testing"
)

func TestScanWord(t *testing.T) {
	for _, tc := range []struct {
		text string
		end  int
		kind Kind
	}{
		{"[true]", 5, True},
		{"[false", 6, False},
		{"[null,", 5, Null},
		{"[nullx", 5, Null},
		{"[tru", -1, Null},
		{"[fals", -1, Null},
		{"[nul", -1, Null},
		{"[True", -1, Null},
		{"[nil]", -1, Null},
		{"[fulse", -1, Null},
	} {
		if end, kind := scanWord([]byte(tc.text), 1); end != tc.end || kind != tc.kind {
			t.Errorf("%s: ends at %d, kind %d; want %d, %d", tc.text, end, kind, tc.end, tc.kind)
		}
	}
}

func TestScanNumber(t *testing.T) {
	for _, tc := range []struct {
		text string
		end  int // negative: ^ of where a digit is missing
	}{
		{"0", 1},
		{"0,", 1},
		{"01", 1},
		{"-0", 2},
		{"120]", 3},
		{"1.50", 4},
		{"1e5", 3},
		{"1E+05x", 5},
		{"-1.0e-07", 8},
		{"-", ^1},
		{"-x", ^1},
		{"1.", ^2},
		{"1.e5", ^2},
		{"1e", ^2},
		{"1e+", ^3},
	} {
		if end := scanNumber([]byte(tc.text), 0); end != tc.end {
			t.Errorf("%s: ends at %d, want %d", tc.text, end, tc.end)
		}
	}
}

func TestScanString(t *testing.T) {
	for _, tc := range []struct {
		text  string
		end   int
		flags uint8
	}{
		{`""`, 2, 0},
		{`"abc" `, 5, 0},
		{`"12345678abc"`, 13, 0},
		{`"a\"b"`, 6, Escaped},
		{`"\u00e9"`, 8, Escaped},
		{`"é"`, 4, NonASCII},
		{`"éabcdefgh\n"`, 14, NonASCII | Escaped},
		{`"abc`, -1, 0},
		{`"\x"`, -1, 0},
		{"\"\n\"", -1, 0},
		{`"\u12"`, -1, 0},
		{`"\`, -1, 0},
	} {
		end, flags := scanString([]byte(tc.text), 1)
		if end != tc.end || end >= 0 && flags != tc.flags {
			t.Errorf("%s: ends at %d with flags %b, want %d, %b", tc.text, end, flags, tc.end, tc.flags)
		}
	}
}

// What is skipped stands for itself, and skipping stops at a special byte or at the last bytes of the text.
func TestSkip(t *testing.T) {
	for n := range 100 {
		for at := 0; at <= n; at++ {
			text := []byte(strings.Repeat("a", at) + `"` + strings.Repeat("b", n-at))
			for name, skip := range map[string]func([]byte, int) int{"skipWords": skipWords, "skipText": skipText} {
				if got := skip(text, 0); got > at || got < at && len(text)-got >= 8 {
					t.Fatalf("%s stops at %d of %s", name, got, text)
				}
			}
		}
	}
}

func TestCloseGivesAContainerItsFlags(t *testing.T) {
	for _, tc := range []struct {
		lastSpace, lastHigh int
		flags               uint8
	}{{-1, -1, 0}, {4, 4, 0}, {6, 4, Spaced}, {4, 7, NonASCII}, {6, 7, Spaced | NonASCII}} {
		n := Node{Start: 5, Next: 3, Kind: Object}
		if parent := n.close(9, 12, tc.lastSpace, tc.lastHigh); parent != 3 || n != (Node{5, 9, 12, Object, tc.flags}) {
			t.Errorf("%+v: got parent %d, %+v, want 3, an object from 9 to 12", tc, parent, n)
		}
	}
}
