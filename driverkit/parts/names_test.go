package parts

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

func TestFolder(t *testing.T) {
	for id, want := range map[string]string{
		"in.c-web.events": "in.c-web.events",
		"Mixed_Case-9":    "Mixed_Case-9",
		".":               "%2E",
		"..":              "%2E%2E",
		".tmp":            "%2Etmp",
		"end.":            "end%2E",
		"...":             "%2E.%2E",
		"../../etc":       "%2E.%2F..%2Fetc",
		"a/b":             "a%2Fb",
		`a\b`:             "a%5Cb",
		"a\x00b":          "a%00b",
		"100%":            "100%25",
		"a b~é":           "a%20b%7E%C3%A9",
		"C:":              "C%3A",
	} {
		if got := folder(id); got != want {
			t.Errorf("folder(%q) = %q, want %q", id, got, want)
		}
	}
	long := strings.Repeat("é", 100)
	if got := folder(long); len(got) != maxFolder || !strings.HasPrefix(got, "%C3%A9%C3%A9") || got == folder(long+"x") {
		t.Errorf("folder of a long id = %q", got)
	}
}

// Whatever the id, its folder is one plain name, and different ids have different folders.
func FuzzFolder(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, id := range []string{"in.c-web.events", "..", "a/b", "%2E", "é"} {
		f.Add(id, id+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		name := folder(a)
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\\:\x00") || len(name) > maxFolder || !filepath.IsLocal(name) {
			t.Errorf("folder(%q) = %q", a, name)
		}
		if a != b && name == folder(b) {
			t.Errorf("%q and %q: got the same folder %q, want two", a, b, name)
		}
	})
}
