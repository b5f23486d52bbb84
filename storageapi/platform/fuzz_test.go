package platform

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

// Whatever the body, there is no panic, and a field has its value or an error that names it.
func FuzzInput(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{
		``, `{}`, `[]`, `{"a":1}`, `{"configuration":"{\"a\":1}","state":{},"isDisabled":"1","rowsSortOrder":["a",1]}`, `{"configuration":"`,
		`a=b&configuration=%7B%7D&rowsSortOrder[0]=x&rowsSortOrder[1]=y`, `a[b][c]=1&a[b][d]=2`, `a[]=1&a[]=2`, `a[=1`, `[=]`, `a[0][1]]=x`, "\x00", `a[b]=1&a=2`,
	} {
		f.Add("application/json", []byte(s))
		f.Add("application/x-www-form-urlencoded", []byte(s))
		f.Add("", []byte(s))
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		in, err := parseInput(kind, body)
		if err != nil {
			if _, internal := explain(err); internal {
				t.Fatalf("the caller's fault became an internal error: %v", err)
			}
			return
		}
		for name := range in.fields {
			n := len(in.violations)
			if c := in.content(name, "code"); c != nil {
				if !json.Valid(c) || len(in.violations) != n {
					t.Errorf("content %s of %s", c, in.fields[name])
				}
				var compact bytes.Buffer
				if json.Compact(&compact, c) != nil || !bytes.Equal(compact.Bytes(), c) {
					t.Errorf("content %s is not compact", c)
				}
			}
			in.text(name)
			in.flag(name)
			in.integer(name)
			in.texts(name)
			var notes []struct{ Key, Value string }
			in.decode(name, &notes, "notes")
		}
		readSelection(in)
		readFormat(in)
		if err := in.err(); err != nil && len(in.violations) == 0 {
			t.Error("an error without a violation")
		}
	})
}

// Well-formed files are read as encoding/csv reads them, with "\r\n" in cells kept. What is written is read back.
func FuzzCSV(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{
		"", "a,b\n1,2\n", "\"a\"\"b\",\"\n\"\r\n", "a,\n,b", "\"\"\n", "\"a", "\"a\"b\n", "a\"b\n", "\r\n\n\r", "\"a\r\nb\"\n", ",", "\"a\"\r", "\r", "a\r,b\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := readAll(s)
		if err != nil {
			return
		}
		var again []byte
		for _, row := range got {
			cells := make([][]byte, len(row))
			for i := range row {
				cells[i] = []byte(row[i])
			}
			again = appendRow(again, cells)
		}
		back, err := readAll(string(again))
		if err != nil || !reflect.DeepEqual(back, got) {
			t.Fatalf("%q was read as %q, written as %q, read as %q, %v", s, got, again, back, err)
		}
		if strings.Contains(s, "\r") {
			return // the standard reader changes some of them
		}
		r := csv.NewReader(strings.NewReader(s))
		r.FieldsPerRecord = -1
		want, err := r.ReadAll()
		if err != nil {
			return // a quote in a cell without quotes, which is kept here
		}
		if len(want) != len(got) || len(got) > 0 && !reflect.DeepEqual(want, got) {
			t.Errorf("%q: rows %q, want %q", s, got, want)
		}
	})
}

func readAll(s string) (rows [][]string, err error) {
	r := newCSVReader(strings.NewReader(s), plainCSV)
	for {
		cells, err := r.next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = string(c)
		}
		rows = append(rows, row)
	}
}

// Laying an object over another object keeps members that only one of them has, and nothing that the upper one replaces.
func FuzzMerge(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add(`{"a":1,"b":{"c":[1,2]}}`, `{"b":{"c":[3],"d":null}}`)
	f.Add(`[]`, `{}`)
	f.Add(`{"a":{"a":{"a":1e400}}}`, `{"a":{"a":{"b":1}}}`)
	f.Fuzz(func(t *testing.T, base, over string) {
		if !json.Valid([]byte(base)) || !json.Valid([]byte(over)) {
			return
		}
		merged, err := mergeJSON(json.RawMessage(base), json.RawMessage(over))
		if err != nil || !json.Valid(merged) {
			t.Fatalf("%s over %s: got %s, %v, want JSON, no error", over, base, merged, err)
		}
		// Laid over once more it changes nothing.
		again, err := mergeJSON(merged, json.RawMessage(over))
		if err != nil || kindOf(merged) != kindOf(again) || !sameJSON(merged, again) {
			t.Errorf("%s over %s: %s, got once more %s, %v, want the same, no error", over, base, merged, again, err)
		}
	})
}

func sameJSON(a, b json.RawMessage) bool {
	decode := func(raw json.RawMessage) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		_ = d.Decode(&v)
		return v
	}
	return reflect.DeepEqual(decode(a), decode(b))
}
