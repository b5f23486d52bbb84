package textcut_test

import (
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/textcut"
)

func TestCutsKeepWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		text  string
		most  int
		head  string
		short string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abc", 2, "ab", "ab…"},
		{"abc", 0, "", "…"},
		{"aé", 2, "a", "a…"},
		{"aé", 3, "aé", "aé"},
		{"a€b", 3, "a", "a…"},
		{"a€b", 4, "a€", "a€…"},
		{"a😀b", 4, "a", "a…"},
		{"a😀b", 5, "a😀", "a😀…"},
		{"😀", 3, "", "…"},
		{"😀", 2, "", "…"},
		{"😀", 1, "", "…"},
		{"é", 1, "", "…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80", "\x80\x80\x80\x80\x80…"},
		{"\x80\x80\x80", 2, "\x80\x80", "\x80\x80…"},
		{"\x80", 0, "", "…"},
		{"a\x80\x80\x80\x80\x80", 5, "a\x80\x80\x80\x80", "a\x80\x80\x80\x80…"},
		{"ab\xff\xff", 3, "ab\xff", "ab\xff…"},
		{"abc\xc3", 4, "abc\xc3", "abc\xc3"},
		{"abc\xc3d", 4, "abc\xc3", "abc\xc3…"},
	} {
		if got := textcut.Head(c.text, c.most); got != c.head {
			t.Errorf("Head(%q, %d) is %q, want %q", c.text, c.most, got, c.head)
		}
		if got := string(textcut.Head([]byte(c.text), c.most)); got != c.head {
			t.Errorf("Head of the bytes %q, %d is %q, want %q", c.text, c.most, got, c.head)
		}
		if got := textcut.Short(c.text, c.most); got != c.short {
			t.Errorf("Short(%q, %d) is %q, want %q", c.text, c.most, got, c.short)
		}
	}
}

// The longest head of whole characters is returned at each length.
func TestHeadIsTheLongest(t *testing.T) {
	const text = "a\x00é€😀\uFFFDz𐍈ß"
	for most := range len(text) + 2 {
		want := 0
		for at, r := range text {
			if end := at + utf8.RuneLen(r); end <= most {
				want = end
			}
		}
		if got := textcut.Head(text, most); got != text[:want] {
			t.Errorf("Head(%q, %d) is %q, want %q", text, most, got, text[:want])
		}
	}
}
