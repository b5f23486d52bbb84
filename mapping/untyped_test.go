package mapping

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/untyped.golden")

// untypedValues are fields of a body, each kind of JSON in its usual and its odd forms.
var untypedValues = []string{
	`null`, `true`, `false`, `0`, `-0`, `1.50`, `1e5`, `1E+400`, `9007199254740993`, `123456789012345678901234567890`, `""`, `"text"`, `"null"`, `"1"`,
	`"a\"b\\c\/d"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, `"\u0000"`, `"é"`, "\"\xff\"", `"a,b` + `\n` + `c"`, `"<&>"`, `[]`, `[1, 2 ,"x"]`, `{}`, `{ "a" : null }`,
	`{"a":"\u0041","a":2}`, "[\"\xff\"]", `{"q":"\""}`,
}

// TestUntypedBytes holds rows of untyped columns against the rows of the release before columns had types.
func TestUntypedBytes(t *testing.T) {
	const file = "testdata/untyped.golden"
	var got bytes.Buffer
	row := func(m *Mapper, how string, r *Record) {
		text, err := m.AppendRow(nil, r)
		if err != nil {
			text = []byte(err.Error() + "\n")
		}
		fmt.Fprintf(&got, "%s: %s", how, text)
	}
	for _, compat := range []bool{false, true} {
		compile := func(cols ...Column) *Mapper {
			m, err := Compile(cols, Options{Compat: compat})
			must(t, err)
			return m
		}
		paths := compile(
			Path("p", "v"), Path("raw", "v", RawString()), Path("default", "v", Default("<d>")), Path("null", "v", Default(1.0), DefaultOnNull(), RawString()),
			Path("no", "none.x", Default([]int{1, 2})), Template("t", `Body("v", null)`), Template("u", `Body("v", "")`, RawString()), Body("b"))
		for _, v := range untypedValues {
			body := `{"v": ` + v + `}`
			row(paths, v, JSON([]byte(body)))
			row(paths, "document "+v, &Record{Document: &jsonDocument{text: strings.ReplaceAll(body, "\xff", "é")}})
		}
		for _, body := range []string{``, `nul`, `{"v":1`, `5`, `[1]`} {
			row(paths, body, JSON([]byte(body)))
			row(compile(Path("p", "v", Default("d"))), body, JSON([]byte(body)))
			row(compile(Path("p", "v")), body, JSON([]byte(body)))
		}
		row(paths, "form", &Record{Body: []byte("v=a%22b&w=1"), Format: FormatForm})
		row(paths, "opaque", &Record{Body: []byte("v"), Format: FormatOpaque})
		others := compile(Datetime("at"), IP("ip"), Headers("h"), Body("b"))
		r := sampleRecord()
		row(others, "others", r)
		r.ClientIP = netip.MustParseAddr("::ffff:1.2.3.4")
		row(others, "mapped", r)
		row(others, "nothing", &Record{})
		for _, content := range corpus(t) {
			if m, err := compileTemplate(content, Options{Compat: compat}); err == nil {
				row(m, strings.ReplaceAll(content, "\n", " "), sampleRecord())
			}
		}
	}
	if *update {
		must(t, os.WriteFile(file, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	gotLines, wantLines := bytes.Split(got.Bytes(), []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(gotLines), len(wantLines)) {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			t.Fatalf("line %d:\ngot  %s\nwant %s", i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Errorf("got %d lines, want %d", len(gotLines), len(wantLines))
	}
}
