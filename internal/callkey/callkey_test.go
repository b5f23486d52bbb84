package callkey

import (
	"errors"
	"strings"
	"testing"
)

func TestKeysAreToldApart(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{"a", "b"}, {"ab"}, {"a", "", "b"}, {"", "ab"}, {"ab", ""}, {"a", "b", ""}, {}, {""}} {
		key := Join(parts...)
		if seen[key] {
			t.Errorf("%q has the key of other parts", parts)
		}
		seen[key] = true
	}
}

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		values []string
		want   string
		err    error
	}{
		{nil, "", nil},
		{[]string{"k"}, Join("scope", "k"), nil},
		{[]string{strings.Repeat("k", 255)}, Join("scope", strings.Repeat("k", 255)), nil},
		{[]string{""}, "", ErrKey},
		{[]string{"a", "a"}, "", ErrKey},
		{[]string{strings.Repeat("k", 256)}, "", ErrKey},
	} {
		if got, err := Of(tt.values, "scope"); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q: got %q, %v, want got == %v and errors.Is(err, tt.err)", tt.values, got, err, tt.want)
		}
	}
}
