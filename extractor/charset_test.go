package extractor_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/forebay/forebay/extractor"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A response whose text is not UTF-8 loses no letter. It is decoded, or the run fails.
func TestCharset(t *testing.T) {
	t.Parallel()
	declared := func(charset, body string) []string {
		return []string{"Content-Type: application/json; charset=" + charset + "\n" + body}
	}
	format := func(s string) string { return `"jobs": [{"endpoint": "u", "format": ` + s + `}]` }
	const csv, ndjson, xml = `"csv"`, `"ndjson"`, `"xml"`
	cafe := []string{`u: {"n":"Café"}`}
	for _, s := range []story{
		{name: "ISO-8859-1", answers: declared("ISO-8859-1", "[{\"n\":\"Caf\xe9\"}]"), records: cafe},
		{name: "ISO-8859-1 in quotes", answers: declared(`"iso-8859-1"`, "[{\"n\":\"Caf\xe9\"}]"), records: cafe},
		{name: "Windows-1252", answers: declared("cp1252", "[{\"n\":\"\x80\x93x\x94\"}]"), records: []string{`u: {"n":"€“x”"}`}},
		{name: "Shift-JIS", answers: declared("Shift_JIS", "[{\"n\":\"\x83\x65\x83\x58\x83\x67\"}]"), records: []string{`u: {"n":"テスト"}`}},
		{name: "UTF-16 with a byte order mark", answers: []string{"\xff\xfe[\x00\"\x00\xe9\x00\"\x00]\x00"}, records: []string{`u: {"data":"é"}`}},
		{name: "UTF-16, big-endian", answers: []string{"\xfe\xff\x00[\x00\"\x00\xe9\x00\"\x00]"}, records: []string{`u: {"data":"é"}`}},
		{name: "UTF-16 by declaration", answers: declared("utf-16le", "[\x00\"\x00\xfd\xff\"\x00]\x00"), records: []string{`u: {"data":"` + "\ufffd" + `"}`}},
		{name: "a byte order mark counts more than the header", answers: declared("iso-8859-1", "\ufeff[\"é\"]"), records: []string{`u: {"data":"é"}`}},
		{name: "the configuration counts more than the header", config: format(`{"type": "json", "charset": "utf-8"}`), answers: declared("iso-8859-1", "[\"é\"]"), records: []string{`u: {"data":"é"}`}},
		{name: "a valid U+FFFD", answers: []string{"[\"\ufffd\"]"}, records: []string{"u: {\"data\":\"\ufffd\"}"}},
		{name: "CSV", config: format(csv), answers: []string{"Content-Type: text/csv; charset=windows-1250\nn\n\xb9\n"}, records: []string{`u: {"n":"ą"}`}},
		{name: "JSON in lines", config: format(ndjson), answers: declared("iso-8859-2", "{\"n\":\"\xb1\"}\n"), records: []string{`u: {"n":"ą"}`}},
		{name: "XML by its declaration", config: format(xml), answers: []string{"<?xml version='1.0' encoding='koi8-r'?><a><b n='1'>\xc1</b><b n='2'/></a>"}, records: []string{`u: {"@n":"1","#text":"а"}`, `u: {"@n":"2"}`}},
		{name: "XML whose declaration differs from the header", config: format(xml), answers: []string{"Content-Type: text/xml; charset=utf-8\n<?xml version='1.0' encoding='iso-8859-1'?><a><b n='1'>\xe9</b><b n='2'/></a>"}, records: []string{`u: {"@n":"1","#text":"é"}`, `u: {"@n":"2"}`}},
		{name: "XML whose header has the encoding", config: format(xml), answers: []string{"Content-Type: text/xml; charset=iso-8859-1\n<?xml version='1.0'?><a><b n='1'>\xe9</b><b n='2'/></a>"}, records: []string{`u: {"@n":"1","#text":"é"}`, `u: {"@n":"2"}`}},
		{name: "none declared", answers: []string{"Content-Type: application/json\n[\"Caf\xe9\"]"}, err: "byte 5 (0xE9) is not UTF-8, and the response declares no other character encoding; set charset in format"},
		{name: "none declared, lines", config: format(ndjson), answers: []string{"\"Caf\xe9\""}, err: "byte 4 (0xE9) is not UTF-8"},
		{name: "none declared, CSV", config: format(csv), answers: []string{"n\nCaf\xe9\n"}, err: "byte 5 (0xE9) is not UTF-8"},
		{name: "not what is declared", answers: declared("utf-8", "[\"Caf\xe9\"]"), err: "byte 5 (0xE9) is not UTF-8:"},
		{name: "not what is declared, Shift-JIS", answers: declared("shift_jis", "[\"\x83\"]"), err: "the response has bytes that are not shift_jis"},
		{name: "half of a UTF-16 character", answers: declared("utf-16le", "[\x00\"\x00\x3d\xd8\"\x00]\x00"), err: "the response has bytes that are not utf-16le"},
		{name: "an unknown encoding", answers: declared("klingon", "[1]"), err: `the response declares the unknown character encoding "klingon"; set charset in format`},
		{name: "the encoding of the configuration", config: format(`{"type": "json", "charset": "windows-1252"}`), answers: []string{"[\"Caf\xe9\"]"}, records: []string{`u: {"data":"Café"}`}},
		{name: "invalid bytes replaced", config: format(`{"type": "json", "replaceInvalid": true}`), answers: []string{"[\"a\xffb\"]"}, records: []string{"u: {\"data\":\"a\ufffdb\"}"}},
		{name: "with rules", api: `"http": {"answerRules": [{"path": "e"}]}`, answers: declared("utf-8", "[\"Caf\xe9\"]"), err: "byte 5 (0xE9) is not UTF-8"},
		{name: "in the configuration", config: format(`{"type": "json", "charset": "klingon"}`), answers: declared("utf-8", "[]"), requests: []string{}, err: `unknown character encoding "klingon"`},
		{name: "gzip that is not declared", answers: []string{gzipped(t, `["é"]`)}, records: []string{`u: {"data":"é"}`}},
		{name: "gzip of CSV that is not declared", config: format(csv), answers: []string{"Content-Type: application/gzip\n" + gzipped(t, "a\n1\n")}, records: []string{`u: {"a":"1"}`}},
		{name: "a compression that is not supported", config: format(csv), answers: []string{"Content-Type: text/csv\nContent-Encoding: zstd\n\x28\xb5\x2f\xfd\x04\x00"}, err: "is not UTF-8, and the response declares no other character encoding; set charset in format (Content-Encoding: zstd)"},
		{name: "CSV with lines that end in CR", config: format(csv), answers: []string{"a,b\r1,\"x\ny\r\"\r2,z\r"}, records: []string{`u: {"a":"1","b":"x\ny\r"}`, `u: {"a":"2","b":"z"}`}},
		{name: "CSV with CR in a field", config: format(csv), answers: []string{"a,b\r\n1,\"x\ry\"\r\n"}, records: []string{`u: {"a":"1","b":"x\ry"}`}},
	} {
		if s.config == "" {
			s.config = `"jobs": [{"endpoint": "u"}]`
		}
		if s.config == format(xml) {
			s.config = `"jobs": [{"endpoint": "u", "format": "xml", "dataField": "a.b"}]`
		}
		if s.requests == nil {
			s.requests = []string{"GET /u"}
		}
		s.run(t)
	}
}

// A text may grow when it is decoded. It needs no more memory than other responses.
func TestCharsetInBoundedMemory(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"charset": "Content-Type: application/json; charset=windows-1252\n[\"" + string(bytes.Repeat([]byte{0x80}, 400_000)) + "\"]",
		"gzip":    gzipped(t, `["`+string(make([]byte, 2<<20))+`"]`),
	} {
		a := newAPI(t, body)
		r := extract(t, a, config("", `"jobs": [{"endpoint": "u"}]`), func(_ *extractor.State, o *extractor.Options) { o.MaxResponseBytes = 1 << 20 })
		if t.Run(name, func(t *testing.T) { checkError(t, r.err, "the response is larger than allowed (1048576 bytes)") }); t.Failed() {
			return
		}
	}
}
