package stream

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

func splitBodies(t testing.TB, mode forebay.Split, body string) ([]string, *wire.Error) {
	t.Helper()
	var ev events
	recs, e := ev.split(mode, []byte(body), &mapping.Record{})
	var list []string
	for _, r := range recs {
		list = append(list, string(r.Body))
	}
	return list, e
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		mode forebay.Split
		body string
		want []string
	}{
		{forebay.SplitArray, `[]`, nil},
		{forebay.SplitArray, " [ ] ", nil},
		{forebay.SplitArray, `[1]`, []string{"1"}},
		{forebay.SplitArray, ` [ {"a": [1, 2]} , "x,]\"[" , null ] `, []string{`{"a": [1, 2]}`, `"x,]\"["`, "null"}},
		{forebay.SplitArray, `["\\",[[]],{}]`, []string{`"\\"`, "[[]]", "{}"}},
		{forebay.SplitArray, `{"a":[1,2]}`, []string{`{"a":[1,2]}`}},
		{forebay.SplitArray, `"text"`, []string{`"text"`}},
		{forebay.SplitLines, "", nil},
		{forebay.SplitLines, "\n \n\r\n", nil},
		{forebay.SplitLines, "{\"a\":1}\n{\"b\":2}", []string{`{"a":1}`, `{"b":2}`}},
		{forebay.SplitLines, "{\"a\":1}\r\n\r\nnot json\n", []string{`{"a":1}`, "not json"}},
	} {
		got, e := splitBodies(t, tt.mode, tt.body)
		if e != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s %q: got %q, %v, want %q", tt.mode, tt.body, got, e, tt.want)
		}
	}
	for _, body := range []string{"", "[", "[1,", "[1 2]", "{]", `["a`, "[1]]"} {
		if _, e := splitBodies(t, forebay.SplitArray, body); e == nil || e.Status != 422 {
			t.Errorf("%q: got %v, want e != nil and e.Status == 422", body, e)
		}
	}
	many := strings.Repeat("1,", maxEvents)
	if got, e := splitBodies(t, forebay.SplitArray, "["+strings.TrimSuffix(many, ",")+"]"); e != nil || len(got) != maxEvents {
		t.Errorf("got %d events, %v, want %d, no error", len(got), e, maxEvents)
	}
	if _, e := splitBodies(t, forebay.SplitArray, "["+many+"1]"); e == nil || e.Status != 413 {
		t.Errorf("one event more: %v", e)
	}
	if _, e := splitBodies(t, forebay.SplitLines, strings.Repeat("1\n", maxEvents+1)); e == nil || e.Status != 413 {
		t.Errorf("one line more: %v", e)
	}
}

// FuzzSplitArray compares the elements with the elements of the standard decoder.
func FuzzSplitArray(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add(`[{"a":"b,]"},[1,2],"\\\"",null]`)
	f.Fuzz(func(t *testing.T, body string) {
		got, e := splitBodies(t, forebay.SplitArray, body)
		if (e == nil) != json.Valid([]byte(body)) && e.Status != 413 {
			t.Fatalf("%q: got %v, want an error if and only if the body is not JSON or too large", body, e)
		}
		var want []json.RawMessage
		if e != nil || json.Unmarshal([]byte(body), &want) != nil || want == nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: got %q, want %q", body, got, want)
		}
		for i := range got {
			if got[i] != string(bytes.TrimSpace(want[i])) {
				t.Errorf("%q: event %d is %q, want %q", body, i, got[i], want[i])
			}
		}
	})
}

// A body that is not JSON is refused with the byte of the fault and with what to send.
func TestSplitSaysWhereABodyIsNotJSON(t *testing.T) {
	for body, want := range map[string]string{
		"": "ends after 0 bytes", "[1, 2": "ends after 5 bytes", `["a`: "ends after 3 bytes", "[1,}": "wrong at byte 3", "x": "wrong at byte 0", "[1] x": "wrong at byte 4", "[tru]": "wrong at byte 4",
	} {
		var ev events
		_, e := ev.split(forebay.SplitArray, []byte(body), &mapping.Record{})
		if e == nil || e.Status != 422 || !strings.Contains(e.Message, want) || !strings.HasSuffix(e.Message, "Send a JSON array of events.") {
			t.Errorf("%q: got %v, want %q", body, e, want)
		}
	}
}
