package mapping

import (
	"bytes"
	"net/http"
	"testing"
)

// A released record keeps its fields, so it gives the same row when it is mapped again.
func TestReleasedRecordIsMappedAgain(t *testing.T) {
	m := mustCompile(t, Body("b"), Headers("h"), Path("p", "id"), Path("o", "o"), Template("t", `Body("id") + Header("X-Id")`))
	records := map[string]*Record{
		"json":     {Body: []byte(`{"id":"a","o":{"x":[1, 2]}}`), Format: FormatJSON},
		"form":     {Body: []byte(`id=a&o[x]=1`), Format: FormatForm},
		"document": {Document: &jsonDocument{text: `{"id":"a","o":{"x":[1]}}`}},
		"fields":   {Document: plainDocument(`{"id":"a","o":{"x":[1]}}`)},
	}
	for name, r := range records {
		t.Run(name, func(t *testing.T) {
			r.Header = map[string][]string{"X-Id": {"7"}}
			want, err := m.AppendRow(nil, r)
			must(t, err)
			r.Release()
			r.Release() // nothing is left to release
			// Another record gets the memory and fills it with its own values.
			other := &Record{Body: []byte(`{"id":"b","o":"other"}`), Format: FormatJSON, Header: map[string][]string{"X-Id": {"8"}}}
			if _, err := m.AppendRow(nil, other); err != nil {
				t.Fatal(err)
			}
			got, err := m.AppendRow(nil, r)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %s %v, want %s", got, err, want)
			}
		})
	}
}

// A copy of a record that was mapped must not use, empty or release the state of the original.
func TestCopyOfARecordHasItsOwnState(t *testing.T) {
	m := mustCompile(t, Path("p", "id"), Headers("h"))
	for name, end := range map[string]func(*Record){"release": (*Record).Release, "reset": (*Record).Reset} {
		t.Run(name, func(t *testing.T) {
			r := JSON([]byte(`{"id":1}`))
			if _, err := m.AppendRow(nil, r); err != nil {
				t.Fatal(err)
			}
			state := r.state
			dup := *r
			end(&dup)
			if dup.state != nil || r.state != state || len(state.tape.Nodes) == 0 {
				t.Fatal("the copy has ended the state of the original")
			}
			dup = *r
			dup.Body, dup.Format = []byte(`{"id":2}`), FormatJSON
			if row, err := m.AppendRow(nil, &dup); err != nil || string(row) != "\"2\",\"{}\"\n" {
				t.Errorf("the copy gave %s %v", row, err)
			}
			if dup.state == r.state {
				t.Error("both records have the same state")
			}
			r.Release()
			if row, err := m.AppendRow(nil, &dup); err != nil || string(row) != "\"2\",\"{}\"\n" {
				t.Errorf("after the release of the original the copy gave %s %v", row, err)
			}
		})
	}
}

// Records that are released after each row, as in the engine, reuse memory.
func TestReleaseAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	m := mustCompile(t, Body("b"), Headers("h"), Path("p", "id"))
	records := make([]*Record, 64)
	for i := range records {
		records[i] = &Record{Body: []byte(`{"id":"a","o":{"x":[1, 2]}}`), Format: FormatJSON, Header: benchHeader()}
	}
	var row []byte
	next := 0
	if n := testing.AllocsPerRun(1000, func() {
		r := records[next%len(records)]
		next++
		row, _ = m.AppendRow(row[:0], r)
		r.Release()
	}); n >= 1 {
		t.Errorf("got %v allocations per row, want less than 1", n)
	}
}

// Host counts as a header wherever headers are read, and replaces a Host in Header.
func TestHostIsAHeader(t *testing.T) {
	m := mustCompile(t, Headers("h"), Template("one", `Header("host")`), Template("all", `Header().Host + std.length(Header())`),
		Template("text", `HeaderStr()`))
	for name, header := range map[string]http.Header{"apart": {"A": {"1"}}, "in both": {"A": {"1"}, "Host": {"other"}}} {
		row, err := m.AppendRow(nil, &Record{Header: header, Host: "h"})
		want := `"{""A"":""1"",""Host"":""h""}","""h""","""h2""","""A: 1\nHost: h\n"""` + "\n"
		if err != nil || string(row) != want {
			t.Errorf("%s: got %s %v, want %s", name, row, err, want)
		}
	}
}
