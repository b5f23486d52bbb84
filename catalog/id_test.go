package catalog_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/fuzztest"
)

func TestNormalizeID(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"My Source", "my-source"},
		{"HTTPSource", "httpsource"},
		{"!!weird~~id##", "weird-id"},
		{"Žluťoučký Kůň", "zlutoucky-kun"},
		{"À la carte", "a-la-carte"},
		{"ABC", "abc"},
		{"aBcDeF", "a-bc-de-f"},
		{"v2.0", "v2-0"},
		{"ßtraße", "sstrasse"},
		{"Łódź", "lodz"},
		{"ÆON Øre", "aeon-ore"},
		{"×÷", ""},
		{"Привет", ""},
		{"数据 2", "2"},
		{"--a--", "a"},
		{"a  b", "a-b"},
		{"", ""},
		{"\xff\xfe", ""},
		{strings.Repeat("aB", 20), ("a" + strings.Repeat("-ba", 20))[:48]},
		{strings.Repeat("x", 47) + " y", strings.Repeat("x", 47)},
	} {
		got := catalog.NormalizeID(tt.text)
		if got != tt.want {
			t.Errorf("NormalizeID(%q) = %q, want %q", tt.text, got, tt.want)
		}
		if again := catalog.NormalizeID(got); again != got {
			t.Errorf("the id %q is not an id of its own: %q", got, again)
		}
	}
}

func FuzzNormalizeID(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add("Žluťoučký Kůň")
	f.Add("aBcDeF")
	f.Fuzz(func(t *testing.T, text string) {
		id := catalog.NormalizeID(text)
		if len(id) > 48 || strings.Trim(id, "-") != id || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Contains(id, "--") {
			t.Errorf("NormalizeID(%q) = %q", text, id)
		}
		if again := catalog.NormalizeID(id); again != id {
			t.Errorf("the id %q is not an id of its own: %q", id, again)
		}
	})
}
