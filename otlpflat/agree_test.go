package otlpflat_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"iter"
	"strconv"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// paths appends the path of every value in a JSON text, and of some missing ones.
func paths(out []string, prefix string, value any) []string {
	out = append(out, prefix, prefix+"[7]", prefix+".nothing")
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			quoted, err := json.Marshal(key)
			if err != nil {
				panic(err)
			}
			out = paths(out, prefix+"["+string(quoted)+"]", member)
		}
	case []any:
		for i, element := range v {
			out = paths(out, prefix+"["+strconv.Itoa(i)+"]", element)
		}
	}
	return out
}

// checkAgreement compares the cells of a document with the cells of its JSON text, for each path.
func checkAgreement(t *testing.T, doc mapping.FieldDocument) {
	t.Helper()
	text, err := doc.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("got %v: %s, want no error", err, text)
	}
	for all := paths(nil, "", value); len(all) > 0; {
		n := min(len(all), mapping.MaxColumns/2)
		var cols mapping.Columns
		for i, p := range all[:n] {
			cols = append(cols,
				mapping.Path("json"+strconv.Itoa(i), p, mapping.Default("(none)")),
				mapping.Path("text"+strconv.Itoa(i), p, mapping.Default("(none)"), mapping.RawString()))
		}
		m, err := mapping.Compile(cols, mapping.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := m.AppendRow(nil, mapping.JSON(text))
		got, gotErr := m.AppendRow(nil, &mapping.Record{Document: doc})
		if wantErr != nil || gotErr != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v %v\nrecord %s\ngot  %s\nwant %s", gotErr, wantErr, text, got, want)
		}
		all = all[n:]
	}
	again, err := doc.AppendJSON([]byte("{"))
	if err != nil || string(again) != "{"+string(text) {
		t.Fatalf("written a second time it is %s, was %s", again, text)
	}
}

// A key that is set twice has its last value, once, in small and large maps and at every level.
func TestRepeatedKeys(t *testing.T) {
	field := func(number byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
	}
	member := func(number byte, key string, value int) []byte {
		return field(number, append(field(1, []byte(key)), field(2, binary.AppendUvarint([]byte{3 << 3}, uint64(value)))...))
	}
	for _, n := range []int{1, 2, 3, 15, 16, 17, 100} {
		var attributes, list []byte
		for i := range n {
			attributes = append(attributes, member(6, strconv.Itoa(i), i)...)
			list = append(list, member(1, strconv.Itoa(i), i)...)
		}
		attributes = append(attributes, member(6, "0", 1000)...)
		list = append(list, member(1, "0", 1000)...)
		body := field(5, field(6, list))
		batch, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(field(1, field(2, field(2, append(body, attributes...)))))
		if err != nil {
			t.Fatal(err)
		}
		for doc := range otlpflat.Logs(batch) {
			checkAgreement(t, doc)
			text, err := doc.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Count(text, []byte(`"0":`)) != 2 || bytes.Count(text, []byte(`"0":1000}`)) != 2 || bytes.Count(text, []byte(`":`)) < 2*n {
				t.Errorf("%d members: got %s, want two lists of all", n, text)
			}
		}
	}
}

// A text that is not UTF-8 is found as it is written, so a typed column takes it. So is a key, and of several with the same written form
// the last counts.
func TestFieldsNotUTF8(t *testing.T) {
	batch := plog.NewLogs()
	r := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	for i, key := range []string{"a\xff\xfe", "a\ufffd\ufffd", "a\ufffd", "\xed\xa0\x80", "ok"} {
		r.Attributes().PutInt(key, int64(i))
	}
	r.Body().SetStr("caf\xe9 \xff\xfe é")
	r.SetSeverityText("\xed\xa0\x80")
	mapper, err := mapping.Compile(otlpflat.LogsTable(), mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for doc := range otlpflat.Logs(batch) {
		checkAgreement(t, doc)
		for _, c := range mapper.Cells(&mapping.Record{Document: doc}) {
			want := map[string]string{"Body": "caf\ufffd \ufffd\ufffd é", "SeverityText": "\ufffd\ufffd\ufffd"}[c.Column]
			if c.Err != nil || want != "" && c.Value != want {
				t.Errorf("%s is %q, %v, want %q", c.Column, c.Value, c.Err, want)
			}
		}
	}
}

func TestFieldsAgreeWithJSON(t *testing.T) {
	g := newGenerator(seedtest.Of(t))
	for documents := 0; documents < 200; {
		for _, docs := range []iter.Seq[mapping.FieldDocument]{
			otlpflat.Logs(g.logs()), otlpflat.Metrics(g.metrics()), otlpflat.Traces(g.traces()),
		} {
			for doc := range docs {
				checkAgreement(t, doc)
				documents++
			}
		}
	}
}
