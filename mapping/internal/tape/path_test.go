package tape

import (
	"errors"
	"slices"
	"testing"
)

func TestParsePath(t *testing.T) {
	key := func(k string) Step { return Step{k, -1} }
	idx := func(k string, i int) Step { return Step{k, i} }
	for _, tc := range []struct {
		path string
		want []Step
	}{
		{``, nil},
		{`a`, []Step{key("a")}},
		{`a.b`, []Step{key("a"), key("b")}},
		{`a..b.`, []Step{key("a"), key("b")}},
		{`.a`, []Step{key("a")}},
		{`a[0].b`, []Step{key("a"), idx("0", 0), key("b")}},
		{`a[0][12]`, []Step{key("a"), idx("0", 0), idx("12", 12)}},
		{`[3]`, []Step{idx("3", 3)}},
		{`a.0`, []Step{key("a"), idx("0", 0)}},
		{`a[007]`, []Step{key("a"), idx("007", 7)}},
		{`resource["service.name"]`, []Step{key("resource"), key("service.name")}},
		{`resource['service.name'].x`, []Step{key("resource"), key("service.name"), key("x")}},
		{`["0"]`, []Step{key("0")}},
		{`[""]`, []Step{key("")}},
		{`["a\"b\\\n\u00e9\ud83d\ude00"]`, []Step{key("a\"b\\\né😀")}},
		{`['it\'s']`, []Step{key("it's")}},
		{`["]"]`, []Step{key("]")}},
		{`a\.b.c`, []Step{key("a.b"), key("c")}},
		{`a\[0\]`, []Step{key("a[0]")}},
		{`a\\b`, []Step{key(`a\b`)}},
		{`\0`, []Step{key("0")}},
		{`9999999999`, []Step{key("9999999999")}},
		{`-1`, []Step{key("-1")}},
		{`a]b`, []Step{key("a]b")}},
		{`é.ü`, []Step{key("é"), key("ü")}},
	} {
		p, err := ParsePath(tc.path, false)
		if err != nil || !slices.Equal(p.Steps, tc.want) || p.Text != tc.path {
			t.Errorf("%s: got %v %v, want %v", tc.path, p.Steps, err, tc.want)
		}
	}
}

func TestParsePathFaults(t *testing.T) {
	for path, want := range map[string]string{
		`a[`:            `'[' without ']' at position 2; ` + writeIndex,
		`a[0`:           `'[' without ']' at position 2; ` + writeIndex,
		`a[]`:           `no index or quoted key at position 3; ` + writeIndex,
		`a[b]`:          `no index or quoted key at position 3; ` + writeIndex,
		`a[-1]`:         `no index or quoted key at position 3; ` + writeIndex,
		`a[1x]`:         `no index or quoted key at position 4; ` + writeIndex,
		`a["b`:          `quoted key without end at position 3; ` + writeKey,
		`a["b"`:         `expected ']' after the quoted key at position 6; ` + writeKey,
		`a["b"x]`:       `expected ']' after the quoted key at position 6; ` + writeKey,
		`a["\q"]`:       `unknown escape at position 4; ` + writeBackslash,
		`a["\u12"]`:     `unknown escape at position 4; ` + writeBackslash,
		`a["b\`:         `a backslash must be followed by a character at position 5; ` + writeBackslash,
		`ab\`:           `a backslash must be followed by a character at position 3; ` + writeBackslash,
		`a[9999999999]`: `the index is above 2147483647 at position 3; ` + writeKey + ` if it is the name of a member`,
	} {
		_, err := ParsePath(path, false)
		var pe *PathError
		if !errors.As(err, &pe) || pe.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", path, err, want)
		}
	}
}
