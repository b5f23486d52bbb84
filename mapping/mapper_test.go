package mapping

import (
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestAppendRowIsCSV(t *testing.T) {
	m := mustCompile(t, Datetime("at"), IP("ip"), Body("body"), Headers("headers"), Path("s", "s"), Path("raw", "s", RawString()),
		Path("o", "o"), Path("missing", "x", Default("a \"quoted\" text\n"), RawString()), Template("t", `"t\"" + Body("s")`))
	r := sampleRecord()
	r.Body = []byte("{\"s\": \"q\\\"\\n\",\n \"o\": {\"k\": \"v\"}}")
	r.Header = http.Header{"X-B": {"2"}, "A": {`"1"`}}
	row, err := m.AppendRow([]byte("before,"), r)
	must(t, err)
	rest, ok := strings.CutPrefix(string(row), "before,")
	if !ok || !strings.HasSuffix(rest, "\"\n") {
		t.Fatalf("got %q, want ok and strings.HasSuffix(rest, \"\\\"\\n\")", row)
	}
	cells, err := csv.NewReader(strings.NewReader(rest)).Read()
	must(t, err)
	want := []string{
		"2024-02-29T13:04:05.067Z", "203.0.113.7", string(r.Body), `{"A":"\"1\"","X-B":"2"}`, `"q\"\n"`, "q\"\n", `{"k":"v"}`,
		"a \"quoted\" text\n", `"t\"q\"\n"`,
	}
	if !reflect.DeepEqual(cells, want) {
		t.Errorf("got  %q\nwant %q", cells, want)
	}
	for i, c := range m.Cells(r) {
		if c.Value != want[i] || c.Err != nil || c.Column != m.Columns()[i].Name {
			t.Errorf("cell %d: %+v, want %q", i, c, want[i])
		}
	}
}

// A rejected record leaves the row buffer as it was, and the columns that need no fields store a malformed body.
func TestRejectedRecord(t *testing.T) {
	for _, tc := range []struct {
		name   string
		col    Column
		record *Record
		reason Reason
		text   string
	}{
		{"missing", Path("c", "a.b"), JSON([]byte(`{}`)), MissingValue, `column "c": path "a.b": the body has no member "a"; set a default if it may be missing`},
		{"malformed", Path("c", "a"), JSON([]byte(`{`)), InvalidBody, `column "c": the body is not valid JSON: unexpected end at byte 1; send the whole JSON value`},
		{"empty", Path("c", ""), JSON(nil), InvalidBody, `column "c": the body is not valid JSON: unexpected end at byte 0; send the whole JSON value`},
		{"opaque", Path("c", "a"), &Record{Body: []byte(`{"a":1}`)}, UnsupportedBody, `column "c": the body has no fields: the record has neither a Content-Type nor a Format; set Format: mapping.FormatJSON, or use mapping.JSON`},
		{"JSON as a form", Path("c", "a"), &Record{Body: []byte(`{"a":1}`), Format: FormatForm}, MissingValue, `column "c": path "a": the body, read as a form, has no member "a"; set a default if it may be missing; if the body is JSON, send Content-Type: application/json`},
		{"Body of JSON as a form", Template("c", `Body("a")`), &Record{Body: []byte(`{"a":1}`), Format: FormatForm}, MissingValue, `column "c": 1:1: Body("a"): the body, read as a form, has no member "a"; give a default as the second argument if it may be missing; if the body is JSON, send Content-Type: application/json, in Body("a")`},
		{"form", Path("c", "a"), &Record{Body: []byte(`a=%`), Format: FormatForm}, InvalidBody, `column "c": the body is not a valid form: invalid %-escape in the pair near byte 0`},
		{"Body", Template("c", `Body("a")`), JSON([]byte(`{}`)), MissingValue, `column "c": 1:1: Body("a"): the body has no member "a"; give a default as the second argument if it may be missing, in Body("a")`},
		{"Header", Template("c", `Header("X-A")`), &Record{}, MissingValue, `column "c": 1:1: Header("X-A"): the request has no such header; give a default as the second argument if it may be missing, in Header("X-A")`},
		{"error", Template("c", `error "mine"`), &Record{}, TemplateFailed, `column "c": 1:1: mine, in error "mine"`},
		{"type", Template("c", `1 + null`), &Record{}, TemplateFailed, `column "c": 1:1: unexpected type null, expected number, in 1 + null`},
		{"function", Template("c", `function(x) x`), &Record{}, TemplateFailed, `column "c": missing argument: x`},
		{"budget", Template("c", `std.range(1, 1e9)`), &Record{}, BudgetExceeded, `column "c": 1:1: the template needs more than 200000 steps, in std.range(1, 1e9); simplify the template, send smaller bodies, or raise Options.Budget`},
		{"document", Path("c", "a"), &Record{Document: badDocument{}}, InvalidBody, `column "c": the document cannot be written as JSON: unwritable`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mustCompile(t, Body("first"), tc.col)
			if tc.record.Document != nil {
				m = mustCompile(t, UUID("first"), tc.col)
			}
			row, err := m.AppendRow([]byte("kept"), tc.record)
			var e *Error
			if !errors.As(err, &e) || e.Reason != tc.reason || e.Column != "c" || e.Error() != tc.text {
				t.Errorf("got  %v (%v)\nwant %s (%s)", err, reasonOf(err), tc.text, tc.reason)
			}
			if string(row) != "kept" {
				t.Errorf("the row buffer became %q", row)
			}
			if tc.record.Document == nil {
				if _, err := mustCompile(t, Body("b"), Headers("h"), IP("i"), UUID("u")).AppendRow(nil, tc.record); err != nil {
					t.Errorf("without fields: %v", err)
				}
			}
		})
	}
}

type badDocument struct{}

func (badDocument) AppendJSON(dst []byte) ([]byte, error) {
	return append(dst, "half"...), errors.New("unwritable")
}

type countingDocument struct{ calls *int }

func (d countingDocument) AppendJSON(dst []byte) ([]byte, error) {
	*d.calls++
	return append(dst, `{"attributes":{"user.id":7}}`...), nil
}

// A document is written once, whatever needs it, and not at all when nothing does.
func TestDocument(t *testing.T) {
	calls := 0
	r := &Record{Document: countingDocument{&calls}}
	if _, err := mustCompile(t, UUID("id"), Headers("h")).AppendRow(nil, r); err != nil || calls != 0 {
		t.Errorf("got %d calls, %v, want 0, no error", calls, err)
	}
	m := mustCompile(t, Body("b"), Path("p", `attributes["user.id"]`), Template("t", `Body().attributes["user.id"] + 1`), Template("s", `BodyStr()`))
	for range 2 {
		row, err := m.AppendRow(nil, r)
		want := `"{""attributes"":{""user.id"":7}}","7","8","""{\""attributes\"":{\""user.id\"":7}}"""` + "\n"
		if err != nil || string(row) != want || calls != 1 {
			t.Errorf("got %s, %v, %d calls, want %s, no error, 1", row, err, calls, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, tc := range []struct {
		def  any
		opts []ColumnOption
		want string
	}{
		{"x", nil, `"x"`},
		{"", nil, `""`},
		{"x", []ColumnOption{RawString()}, `x`},
		{"", []ColumnOption{RawString()}, ``},
		{"é\n\"<", []ColumnOption{RawString()}, "é\n\"<"},
		{5, nil, `5`},
		{5, []ColumnOption{RawString()}, `5`},
		{json.RawMessage(`12345678901234567890`), nil, `12345678901234567890`},
		{json.RawMessage(` { "a" : [ 1 ] } `), nil, `{"a":[1]}`},
		{nil, nil, `null`},
		{true, nil, `true`},
		{[]int{1, 2}, nil, `[1,2]`},
	} {
		m := mustCompile(t, Path("p", "missing", append(tc.opts, Default(tc.def))...))
		for _, r := range []*Record{JSON([]byte(`{}`)), JSON([]byte(`{`)), {Body: []byte("text")}, {}} {
			if c := m.Cells(r)[0]; c.Value != tc.want || c.Err != nil {
				t.Errorf("got %v %d options: %s %v, want %s", tc.def, len(tc.opts), c.Value, c.Err, tc.want)
			}
		}
	}
}

func TestFormatOf(t *testing.T) {
	for contentType, want := range map[string]Format{
		"application/json": FormatJSON, "application/json; charset=utf-8": FormatJSON, "APPLICATION/JSON;x=y": FormatJSON,
		" application/json ": FormatJSON, "text/json": FormatJSON, "application/cloudevents+json": FormatJSON,
		"application/vnd.api+json; v=1": FormatJSON, "application/x-www-form-urlencoded": FormatForm,
		"Application/X-WWW-Form-Urlencoded; charset=utf-8": FormatForm, "": FormatOpaque, "json": FormatOpaque, "text/plain": FormatOpaque,
		"application/jsonp": FormatOpaque, "application/json-seq": FormatOpaque, "application/x-ndjson": FormatOpaque, "application/+json": FormatOpaque,
		"application/x-www-form-urlencodedx": FormatOpaque, "/json": FormatOpaque, "application/": FormatOpaque, ";": FormatOpaque,
	} {
		if got := FormatOf(contentType); got != want {
			t.Errorf("%q is %s, want %s", contentType, got, want)
		}
	}
}

func TestCompileNamesEveryFault(t *testing.T) {
	_, err := Compile(Columns{
		UUID(""),
		Path("p", `a[x]`),
		Path("p", "ok", Default(make(chan int))),
		{Type: "number", Name: "n"},
		Template("t", "1 +"),
		Template("u", "local x = 1;\n  y + Body(1, 2, 3) + std.nope + Body('a[') + Now('%Q') + std.length()"),
		Template("v", "import 'x'"),
		{Type: TypeTemplate, Name: "l", Template: TemplateSource{Language: "lua", Content: "1"}},
		Template("e", ""),
		Template("long", strings.Repeat("é", MaxTemplateLength+1)),
		{Type: TypeUUID, Name: "r", RawString: true, Default: json.RawMessage("1")},
		Path("null", "x", DefaultOnNull()),
	}, Options{})
	var all DefinitionErrors
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	want := []string{
		`column 1 (""): name: must not be empty; name the column of the table`,
		`column 2 ("p"): path:3: no index or quoted key; write an index or a quoted key, like [0] or ["a.b"]; a bracket in a name is \[`,
		`column 3 ("p"): name: column 2 has the same name; names are unique in a mapping`,
		`column 3 ("p"): defaultValue (Default): is not a JSON value: expected a value at byte 0 of "chan int cannot be encoded as JSON"`,
		`column 4 ("n"): type: "number" is not a column type; use uuid, datetime, ip, body, headers, path or template`,
		`column 5 ("t"): template.content:1:4: Unexpected end of file; correct the jsonnet at this place`,
		`column 6 ("u"): template.content:2:3: unknown variable: y; declare it with local, quote it if it is a text, or write Body("y") for a field of the event`,
		`column 6 ("u"): template.content:2:7: Body: the function takes at most 2 argument(s), not 3`,
		`column 6 ("u"): template.content:2:23: the standard library has no member "nope"; use a function of jsonnet`,
		`column 6 ("u"): template.content:2:34: Body: the path "a[": '[' without ']' at position 2; write an index or a quoted key, like [0] or ["a.b"]; a bracket in a name is \[`,
		`column 6 ("u"): template.content:2:47: Now: the format "%Q": failed to compile format: pattern compilation failed: ` +
			`lookup failed: '%Q' was not found in specification set; write one of strftime, such as %Y-%m-%d`,
		`column 6 ("u"): template.content:2:59: std.length: the argument "x" is missing`,
		`column 7 ("v"): template.content:1:1: import is not available in templates; write its content into the template`,
		`column 8 ("l"): template.language: "lua" is not known; the language is "jsonnet"`,
		`column 9 ("e"): template.content: a template has 1 to 4096 characters, not 0`,
		`column 10 ("long"): template.content: a template has 1 to 4096 characters, not 4097`,
		`column 11 ("r"): rawString: applies to path and template columns only; remove it`,
		`column 11 ("r"): defaultValue (Default): applies to path columns only; remove it, or set the type path`,
		`column 12 ("null"): defaultOnNull: needs a defaultValue; set one, or remove it`,
	}
	if got := strings.Split(strings.ReplaceAll(err.Error(), "mapping: ", ""), "\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	_, err = Compile(Columns{Template("u", "local x = 1;\n  x + Body(1, 2, 3) + std.nope + Body('a[') + Now('%Q') +\n std.length() + Body(nope='x') + Body(5)")}, Options{})
	want = []string{
		`column 1 ("u"): template.content:2:7: Body: the function takes at most 2 argument(s), not 3`,
		`column 1 ("u"): template.content:2:23: the standard library has no member "nope"; use a function of jsonnet`,
		`column 1 ("u"): template.content:2:34: Body: the path "a[": '[' without ']' at position 2; write an index or a quoted key, like [0] or ["a.b"]; a bracket in a name is \[`,
		`column 1 ("u"): template.content:2:47: Now: the format "%Q": failed to compile format: pattern compilation failed: lookup failed: '%Q' was not found in specification set; write one of strftime, such as %Y-%m-%d`,
		`column 1 ("u"): template.content:3:2: std.length: the argument "x" is missing`,
		`column 1 ("u"): template.content:3:17: Body: the function has no parameter "nope"`,
		`column 1 ("u"): template.content:3:34: Body: the path must be a string, not number`,
	}
	if got := strings.Split(strings.ReplaceAll(err.Error(), "mapping: ", ""), "\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	for _, n := range []int{0, 101} {
		cols := make(Columns, n)
		for i := range cols {
			cols[i] = UUID(fmt.Sprint(i))
		}
		if _, err := Compile(cols, Options{}); err == nil || !strings.Contains(err.Error(), "1 to 100 columns") {
			t.Errorf("%d columns: got %v, want an error that allows 1 to 100", n, err)
		}
	}
	if _, err := Compile(Columns{UUID("a")}, Options{Budget: Budget{Steps: -1, Output: -2}}); err == nil ||
		!strings.Contains(err.Error(), "Budget.Steps is -1") || !strings.Contains(err.Error(), "Budget.Output is -2") {
		t.Errorf("options: %v", err)
	}
}

// The place of a fault counts characters of the user's own text.
func TestTemplateErrorPlace(t *testing.T) {
	for content, want := range map[string]string{
		"nope":                  "1:1",
		"'é' + nope":            "1:7",
		"{\n  a: 1,\n  b: $x\n": "3:7",
		"local a = 1;\n\ta + b": "2:6",
		"'unfinished":           "1:1",
		"{a: 1, a: 2}":          "1:8",
		"1e999":                 "1:1",
		"Header()()(":           "1:12",
	} {
		_, err := Compile(Columns{Template("t", content)}, Options{})
		var fault *DefinitionError
		if !errors.As(err, &fault) || fmt.Sprintf("%d:%d", fault.Line, fault.Col) != want {
			t.Errorf("%q: got %v, want it at %s", content, err, want)
		}
	}
}

func TestDatetime(t *testing.T) {
	for in, want := range map[time.Time]string{
		time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.FixedZone("x", -3600)): "2024-03-01T00:59:59.999Z",
		time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC):                                    "0001-01-01T00:00:00.000Z",
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC):                               "9999-12-31T00:00:00.000Z",
		{}: "",
	} {
		if got := string(appendDatetime(nil, in)); got != want {
			t.Errorf("got %v: %s, want %s", in, got, want)
		}
	}
}

func TestIP(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "fe80::1%eth0": "fe80::1",
	} {
		m := mustCompile(t, IP("ip"), Template("t", "Ip()", RawString()))
		cells := m.Cells(&Record{ClientIP: netip.MustParseAddr(in)})
		if cells[0].Value != want || cells[1].Value != want {
			t.Errorf("%s: got %+v, want cells[0].Value == %v and cells[1].Value == %v", in, cells, want, want)
		}
	}
}

func TestUUIDsAscend(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	m := mustCompile(t, UUID("a"), UUID("b"))
	r := &Record{}
	start := time.Now().UnixMilli()
	last := ""
	for range 5000 {
		for _, c := range m.Cells(r) {
			if !form.MatchString(c.Value) || c.Value <= last {
				t.Fatalf("got %s after %s, want a later one of the form %s", c.Value, last, form)
			}
			last = c.Value
		}
	}
	var ms int64
	if _, err := fmt.Sscanf(strings.ReplaceAll(last, "-", "")[:12], "%x", &ms); err != nil || ms < start || ms > time.Now().UnixMilli()+10 {
		t.Errorf("time %d, began at %d: %v", ms, start, err)
	}
}

func TestHexText(t *testing.T) {
	for _, x := range []uint32{0, 1, 0x9a, 0x01234567, 0x89abcdef, 0xf0e1d2c3, 0xffffffff, 0xa9a9f9f0} {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], hexText(x))
		if want := fmt.Sprintf("%08x", x); string(b[:]) != want {
			t.Errorf("got %s, want %s", b, want)
		}
	}
}

// The functions of the event read every kind of record.
func TestEventFunctions(t *testing.T) {
	r := sampleRecord()
	r.Header = http.Header{"Content-Type": {"application/json; charset=utf-8"}, "X-A": {"1", "2"}, "Cookie": {"a=b", "c=d"}, "A-B": {"x"}, "A": {"y"}}
	r.Format, r.Body = FormatFromHeader, []byte(`{"n": 12345678901234567890}`)
	for content, want := range map[string]string{
		`HeaderStr()`:                  "A-B: x\nA: y\nContent-Type: application/json; charset=utf-8\nCookie: a=b\nCookie: c=d\nX-A: 1\nX-A: 2\n",
		`Header("cookie")`:             "a=b; c=d",
		`Header("x-a")`:                "1, 2",
		`Header()["X-A"]`:              "1, 2",
		`Header("nope", "d")`:          "d",
		`Header("nope", null)`:         "null",
		`Body("n")`:                    "12345678901234567890",
		`"id " + Body("n")`:            "id 12345678901234567890",
		`std.toString([Body("n")])`:    "[12345678901234567890]",
		`"%s" % Body("n")`:             "12345678901234567890",
		`Body("n") + 0`:                "12345678901234567168",
		`Body().n == Body("n")`:        "true",
		`BodyStr()`:                    `{"n": 12345678901234567890}`,
		`Now()`:                        "2024-02-29T13:04:05.067Z",
		`Now("%Y%m%d %H:%M:%S.%f %j")`: "20240229 13:04:05.067 060",
		`Now(format="%s")`:             "",
		`Ip()`:                         "203.0.113.7",
	} {
		p, err := compileTemplate(content, Options{}, RawString())
		if want == "" {
			if err == nil {
				t.Errorf("%s: got no error, want one", content)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v, want no error", content, err)
			continue
		}
		if got, err := p.AppendCell(nil, 0, r); string(got) != want || err != nil {
			t.Errorf("%s: got %q %v, want %q", content, got, err, want)
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	header := benchHeader()
	for name, m := range map[string]*Mapper{
		"path":     mustCompile(t, Path("p", "field_02.name")),
		"row":      mustCompile(t, UUID("id"), Datetime("at"), IP("ip"), Body("body"), Headers("h"), Path("p", "field_00"), Path("d", "x", Default("q"))),
		"template": mustCompile(t, Template("t", `Body('field_00') + '-' + Header('X-Env', 'n') + '-' + Now('%Y') + Ip()`)),
	} {
		body, r := kilobyte(), new(Record)
		var row []byte
		run := func() {
			r.Reset()
			r.Body, r.Format, r.Header, r.ClientIP, r.Received = body, FormatJSON, header, netip.IPv4Unspecified(), time.Unix(1, 0)
			var err error
			if row, err = m.AppendRow(row[:0], r); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%s: got %v allocations per row, want 0", name, n)
		}
	}
}

// A body is the same in a row whether the mapper reads its fields or not.
func TestBodyCellIsTheSameWithPaths(t *testing.T) {
	alone, with := mustCompile(t, Body("b")), mustCompile(t, Body("b"), Path("p", "x", Default(0)))
	bodies := []string{
		``, ` `, `null`, `-10.5`, `""`, `"a"`, `"\"\\\/\b\f\n\r\t"`, `"\u00e9\uD83D\uDE00"`, `"é😀"`, "\"\xff\"", `[]`, `[ 1 , 2 ]`, `[[],[[]]]`, `{ }`, `{"a":1,"a":2}`,
		`{"":{"":""}}`, " \t\r\n{ \"a\" \n:\t1 } ", `{"x":[{"b":null}]}`, `"` + strings.Repeat("x", 100) + `"`, "\"12345678\\u0031\"", `nul`, `01`, `"`, `"a`, `"\`, "\"\n\"",
		`[1,`, `{"a":1,}`, `{"a" 1}`, `{"a":1 "b":2}`, `[1]x`, `"a""b"`, `{"a":"b\"}`, sampleBody, string(kilobyte()), " {\"x\": \"\\\"\"}\n\t",
	}
	for _, s := range bodies {
		for _, f := range []Format{FormatJSON, FormatForm, FormatOpaque} {
			r := &Record{Body: []byte(s), Format: f}
			a, err := alone.AppendRow(nil, r)
			must(t, err)
			b, err := with.AppendRow([]byte("row\n"), r)
			must(t, err)
			cell, _, _ := strings.Cut(string(b), "\",\"")
			if want := "row\n" + strings.TrimSuffix(string(a), "\"\n"); !strings.HasPrefix(string(b), want+"\",\"") {
				t.Errorf("%.60q as %s: got %.80q, want %.80q", s, f, cell, want)
			}
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}
