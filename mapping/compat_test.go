package mapping

import (
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
)

// compatCase shows one row of docs/internals/compatibility.md, the cell of a column without and with Options.Compat. An error is
// written as its reason in angle brackets.
type compatCase struct {
	id       string
	col      Column
	record   *Record
	ours     string
	compat   string
	noSwitch bool // Compat makes no difference on purpose
}

func withHeader(body string, header ...string) *Record {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &Record{Body: []byte(body), Header: h}
}

var compatCases = []compatCase{
	{
		id: "media-type", col: Path("c", "a"), record: withHeader(`{"a":1}`, "Content-Type", "application/json; charset=utf-8"),
		ours: `1`, compat: `<unsupportedBody>`,
	},
	{
		id: "media-type-case", col: Path("c", "a"), record: withHeader(`{"a":1}`, "Content-Type", "APPLICATION/JSON"),
		ours: `1`, compat: `<unsupportedBody>`,
	},
	{
		id: "default-unparsable", col: Path("c", "a", Default("d")), record: withHeader(`{"a":`, "Content-Type", "application/json"),
		ours: `"d"`, compat: `<invalidBody>`,
	},
	{
		id: "default-unparsable-template", col: Template("c", `Body('a', 'd')`), record: withHeader(`text`, "Content-Type", "text/plain"),
		ours: `"d"`, compat: `<unsupportedBody>`,
	},
	{
		id: "quoted-keys", col: Path("c", `a["b.c"]`, Default(nil)), record: JSON([]byte(`{"a":{"b.c":1}}`)),
		ours: `1`, compat: `null`,
	},
	{
		id: "backslash-keys", col: Path("c", `a\.b`, Default(nil)), record: JSON([]byte(`{"a.b":1,"a\\":{"b":2}}`)),
		ours: `1`, compat: `2`,
	},
	{
		id: "body-not-object", col: Template("c", `Body()`), record: JSON([]byte(`[1]`)),
		ours: `[1]`, compat: `<templateFailed>`,
	},
	{
		id: "body-null", col: Template("c", `Body()`), record: JSON([]byte(`null`)),
		ours: `null`, compat: `<templateFailed>`,
	},
	{
		id: "digits", col: Template("c", `{ n: Body('n') }`), record: JSON([]byte(`{"n":[9007199254740993,0.1,1.50]}`)),
		ours: `{"n":[9007199254740993,0.1,1.50]}`, compat: `{"n":[9007199254740992,0.10000000000000001,1.5]}`,
	},
	{
		id: "computed-digits", col: Template("c", `Body('n') + 0.2`), record: JSON([]byte(`{"n":0.5}`)),
		ours: `0.7`, compat: `0.69999999999999996`,
	},
	{
		id: "key-order", col: Template("c", `Body('o')`), record: JSON([]byte(`{"o":{"b":1,"a":"\u0041"}}`)),
		ours: `{"b":1,"a":"\u0041"}`, compat: `{"a":"A","b":1}`,
	},
	{
		id: "repeated-headers", col: Headers("c"), record: withHeader(``, "X-A", "1", "X-A", "2"),
		ours: `{"X-A":"1, 2"}`, compat: `{"X-A":"1"}`,
	},
	{
		id: "repeated-headers-text", col: Template("c", `HeaderStr()`), record: withHeader(``, "X-A", "1", "X-A", "2"),
		ours: `"X-A: 1\nX-A: 2\n"`, compat: `"X-A: 1\nX-A: 1\n"`,
	},
	{
		id: "html-escapes", col: Headers("c"), record: withHeader(``, "X-A", "<&>"),
		ours: `{"X-A":"<&>"}`, compat: `{"X-A":"\u003c\u0026\u003e"}`,
	},
	{
		id: "html-escapes-form", col: Path("c", "a"), record: withHeader(`a=%3Cb%3E`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `"<b>"`, compat: `"\u003cb\u003e"`,
	},
	{
		id: "default-escapes", col: Path("c", "a", Default("<\u00e9&>")), record: JSON([]byte(`{}`)),
		ours: `"<é&>"`, compat: `"\u003cé\u0026\u003e"`,
	},
	{
		id: "default-escapes-given", col: Column{Type: TypePath, Name: "c", Path: "a", Default: []byte(`"\u00e9\/"`)}, record: JSON([]byte(`{}`)),
		ours: `"\u00e9\/"`, compat: `"é/"`,
	},
	{
		id: "duplicate-names-template", col: Template("c", `[Body('a.b'), Body().a.b, std.get(Body(), 'a')]`),
		record: JSON([]byte(`{"a":{"b":1},"a":{"b":2,"b":3}}`)),
		ours:   `[1,1,{"b":1}]`, compat: `[3,3,{"b":3}]`,
	},
	{
		id: "duplicate-names-escaped", col: Path("c", "a"), record: JSON([]byte(`{"\u0061":1,"a":2}`)),
		ours: `1`, compat: `1`, noSwitch: true,
	},
	{
		id: "duplicate-names-escaped-template", col: Template("c", `Body('a')`), record: JSON([]byte(`{"\u0061":1,"a":2}`)),
		ours: `1`, compat: `2`,
	},
	{
		id: "cookie-lines", col: Template("c", `HeaderStr()`), record: withHeader(``, "Cookie", "a=1", "Cookie", "b=2", "X-A", "1"),
		ours: `"Cookie: a=1\nCookie: b=2\nX-A: 1\n"`, compat: `"Cookie: a=1; b=2\nX-A: 1\n"`,
	},
	{
		id: "form-without-name", col: Path("c", "b"), record: withHeader(`=x&b=1`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `"1"`, compat: `<invalidBody>`,
	},
	{
		id: "form-open-bracket", col: Path("c", ""), record: withHeader(`a[k=1`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `{"a[k":"1"}`, compat: `<invalidBody>`,
	},
	{
		id: "form-open-bracket-alone", col: Path("c", ""), record: withHeader(`a[=1`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `{"a[":"1"}`, compat: `<invalidBody>`,
	},
	{
		id: "form-leading-bracket", col: Path("c", ""), record: withHeader(`[a]=1`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `{"[a]":"1"}`, compat: `{"[a]":"1"}`, noSwitch: true,
	},
	{
		id: "form-semicolon", col: Path("c", "a"), record: withHeader(`a=1;b=2`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `"1;b=2"`, compat: `<invalidBody>`,
	},
	{
		id: "form-media-type", col: Path("c", "a", Default("none")), record: withHeader(`a=1`, "Content-Type", "application/x-www-form-urlencodedX"),
		ours: `"none"`, compat: `"1"`,
	},
	{
		id: "media-type-underscore", col: Path("c", "a"), record: withHeader(`{"a":1}`, "Content-Type", "application/a_b+json"),
		ours: `1`, compat: `1`, noSwitch: true,
	},
	{
		id: "large-numbers", col: Template("c", `[Body().b, Body("b")]`), record: JSON([]byte(`{"a":1e400,"b":2}`)),
		ours: `[2,2]`, compat: `[2,2]`, noSwitch: true,
	},
	{
		id: "large-numbers-path", col: Path("c", "a"), record: JSON([]byte(`{"a":1e400,"b":2}`)),
		ours: `1e400`, compat: `1e400`, noSwitch: true,
	},
	{
		id: "deep-bodies", col: Template("c", `Body().a`), record: JSON([]byte(`{"a":1,"d":` + strings.Repeat("[", 301) + strings.Repeat("]", 301) + `}`)),
		ours: `1`, compat: `1`, noSwitch: true,
	},
	{
		id: "index-with-zeros", col: Path("c", "a[00]"), record: JSON([]byte(`{"a":{"00":1,"0":2}}`)),
		ours: `1`, compat: `2`,
	},
	{
		id: "name-into-array", col: Path("c", "a.b", Default("none")), record: JSON([]byte(`{"a":[{"b":1}]}`)),
		ours: `"none"`, compat: `"none"`, noSwitch: true,
	},
	{
		id: "unused-default", col: Template("c", `Body("a", error "evaluated")`), record: JSON([]byte(`{"a":1}`)),
		ours: `1`, compat: `1`, noSwitch: true,
	},
	{
		id: "path-after-body", col: Template("c", `[Body(), Body("a[0]")]`), record: JSON([]byte(`{"a":[5]}`)),
		ours: `[{"a":[5]},5]`, compat: `[{"a":[5]},5]`, noSwitch: true,
	},
	{
		id: "empty-user-agent", col: Template("c", `Header("User-Agent")`), record: withHeader(``, "User-Agent", ""),
		ours: `""`, compat: `""`, noSwitch: true,
	},
	{
		id: "form-text-and-members", col: Path("c", "a"), record: withHeader(`a=1&a[k]=2`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `{"k":"2"}`, compat: `<invalidBody>`,
	},
	{id: "unknown-ip", col: IP("c"), record: &Record{}, ours: ``, compat: `<nil>`},
	{
		id: "one-resolver", col: Path("c", "a.0"), record: withHeader(`a[]=x`, "Content-Type", "application/x-www-form-urlencoded"),
		ours: `"x"`, compat: `"x"`, noSwitch: true,
	},
	{
		id: "invalid-utf8", col: Path("c", "a"), record: JSON([]byte("{\"a\":\"\xff\"}")),
		ours: "\"\ufffd\"", compat: "\"\ufffd\"", noSwitch: true,
	},
	{
		id: "strict-json", col: Path("c", "a"), record: JSON([]byte(`{"a":01}`)),
		ours: `<invalidBody>`, compat: `<invalidBody>`, noSwitch: true,
	},
	{
		id: "mapped-ip", col: IP("c"), record: &Record{ClientIP: netip.MustParseAddr("::ffff:192.0.2.1")},
		ours: `192.0.2.1`, compat: `192.0.2.1`, noSwitch: true,
	},
	{
		id: "typed-defaults", col: Path("c", "a", Default(map[string]any{"k": 1})), record: JSON([]byte(`{}`)),
		ours: `{"k":1}`, compat: `{"k":1}`, noSwitch: true,
	},
	{
		id: "default-on-null", col: Path("c", "a", Default(0), DefaultOnNull()), record: JSON([]byte(`{"a":null}`)),
		ours: `0`, compat: `0`, noSwitch: true,
	},
	{
		id: "budget", col: Template("c", `std.range(1, 1e9)`), record: &Record{},
		ours: `<budgetExceeded>`, compat: `<budgetExceeded>`, noSwitch: true,
	},
}

func TestCompat(t *testing.T) {
	cell := func(col Column, r *Record, compat bool) string {
		m, err := Compile(Columns{col}, Options{Compat: compat})
		if err != nil {
			t.Fatal(col, err)
		}
		c := m.Cells(r)[0]
		if c.Err != nil {
			return "<" + reasonOf(c.Err).String() + ">"
		}
		return c.Value
	}
	for _, tc := range compatCases {
		// The same record goes through both. What one has cached must not show in the other.
		for range 2 {
			if got := cell(tc.col, tc.record, false); got != tc.ours {
				t.Errorf("%s: got %s, want %s", tc.id, got, tc.ours)
			}
			if got := cell(tc.col, tc.record, true); got != tc.compat {
				t.Errorf("%s with Compat: got %s, want %s", tc.id, got, tc.compat)
			}
		}
		if (tc.ours == tc.compat) != tc.noSwitch {
			t.Errorf("%s: the switch is described wrongly", tc.id)
		}
	}
}

// The table in the documentation and the cases here name the same differences.
func TestCompatibilityTableIsComplete(t *testing.T) {
	doc, err := os.ReadFile("../docs/internals/compatibility.md")
	must(t, err)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)`(?:, `([a-z0-9-]+)`)? \\|").FindAllSubmatch(doc, -1) {
		for _, id := range m[1:] {
			if len(id) > 0 {
				listed[string(id)] = true
			}
		}
	}
	for _, tc := range compatCases {
		if !listed[tc.id] {
			t.Errorf("docs/internals/compatibility.md lacks %s", tc.id)
		}
		delete(listed, tc.id)
	}
	for id := range listed {
		t.Errorf("docs/internals/compatibility.md lists %s, which has no test", id)
	}
}
