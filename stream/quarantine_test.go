package stream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// An event in a quarantine is accepted, and the response says so even without verbose.
func TestQuarantinedEvents(t *testing.T) {
	aside := forebay.SinkResult{Sink: "a", Status: forebay.Quarantined, Err: &mapping.Error{
		Column: "user", Reason: mapping.MissingValue, Err: errors.New("the body has no field"),
	}}
	again := forebay.SinkResult{Sink: "a", Status: forebay.Quarantined, Replayed: true} // by an earlier request with its key
	for _, tt := range []struct {
		name  string
		sinks []forebay.SinkResult
		code  int
		want  string
	}{
		{"alone", []forebay.SinkResult{aside}, 200, "0/1 sinks written, 1 quarantined"},
		{"again", []forebay.SinkResult{again}, 200, "0/1 sinks written, 1 quarantined"},
		{"beside a row", []forebay.SinkResult{aside, stored("b")}, 200, "1/2 sinks written, 1 quarantined"},
		{"beside a row in memory", []forebay.SinkResult{aside, queued("b")}, 202, "1/2 sinks written, 1 quarantined"},
		{"beside a rejection", []forebay.SinkResult{aside, refused("b", forebay.Rejected, aside.Err)}, 422, "0/2 sinks written, 1 quarantined"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := serve(newHandler(newFake(tt.sinks...), Options{ProjectID: 7}), post("/stream/7/web/"+secret, "x"))
			checkAnswer(t, w)
			var body resultBody
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != tt.code || body.Message != tt.want || (body.Error != "") != (tt.code == 422) {
				t.Fatalf("answer is %d %s, %v", w.Code, w.Body, err)
			}
			got := body.Sources[0].Sinks[0]
			want := "quarantined"
			if tt.sinks[0].Err != nil {
				want = "quarantined: column \"user\": the body has no field"
			}
			if got.SinkID != "a" || got.StatusCode != 200 || got.Error != "" || got.Message != want {
				t.Errorf("the sink's outcome is %+v", got)
			}
		})
	}

	results := []forebay.Result{
		{Sinks: []forebay.SinkResult{stored("a")}}, {Sinks: []forebay.SinkResult{aside}}, {Sinks: []forebay.SinkResult{stored("a")}},
	}
	for _, failed := range []bool{false, true} {
		code, message := 200, "2/3 events written, 1 quarantined"
		if failed {
			results[2] = forebay.Result{Sinks: []forebay.SinkResult{refused("a", forebay.Rejected, aside.Err)}}
			code, message = 422, "1/3 events written by all sinks, 1 quarantined"
		}
		fake := newFake()
		src := fake.sources["web"]
		src.Split = forebay.SplitLines
		fake.sources["web"] = src
		next := 0
		fake.ingest = func(context.Context, string, *mapping.Record) (forebay.Result, error) {
			next++
			return results[next-1], nil
		}
		w := serve(newHandler(fake, Options{ProjectID: 7}), post("/stream/7/web/"+secret, "1\n2\n3\n"))
		checkAnswer(t, w)
		var body eventsBody
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != code || body.Message != message || len(body.Quarantined) != 1 ||
			body.Quarantined[0].Index != 1 || (len(body.Failed) == 1) != failed {
			t.Errorf("answer is %d %s, %v", w.Code, w.Body, err)
		}
	}
}

// A quarantine has the line of the request and its headers, and no secret, neither the secret of the source, wherever a proxy has copied it to,
// nor a parameter or header with the name of a secret.
func TestQuarantineKeepsTheRequestWithoutSecrets(t *testing.T) {
	const old, leak = "0ld-secret-of-web", "canary"
	eng, err := forebay.Open(filepath.Join(t.TempDir(), "data"), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := eng.Define(t.Context(), forebay.Source{
		ID: "web", Secret: secret, OldSecret: old, OldSecretUntil: time.Now().Add(time.Hour), Split: forebay.SplitArray, KeepHeaders: []string{"*"},
		Sinks: []forebay.Sink{{ID: "a", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "a", Columns: mapping.Columns{
			mapping.Path("user", "user", mapping.DataType(datatype.Int64), mapping.Required()),
		}}}},
	}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(Ingest(eng, Options{ProjectID: 7}))
	t.Cleanup(srv.Close)
	const query = "?a=1&api_key=canary&b%5Bc%5D=2;Sig=canary&%61uth=canary&%zz=canary&=x&flag&token=&q="
	for _, part := range []string{secret, old} {
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/stream/7/web/"+part+query+part, strings.NewReader(`[{"n":1},{"n":2}]`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "User-Agent": "test/1", "X-Original-Uri": "/stream/7/web/" + part, "Referer": "http://x/?s=" + part,
			"Authorization": leak, "X-Auth-Key": leak, "Idempotency-Key": "call " + part[:2], "X-Pwds": "shown",
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	q, n := eng.Sink("web", "a").Quarantine(), 0
	for r, err := range q.List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		c, err := q.Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		want := mapping.RequestLine{
			Method: "POST", Path: "/stream/7/web/", Query: "a=1&api_key=***&b%5Bc%5D=2;Sig=***&%61uth=***&%zz=***&=x&flag&token=&q=***",
		}
		if c.Record.Request != want {
			t.Errorf("the request is %+v, want %+v", c.Record.Request, want)
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{secret, old, leak} {
			if strings.Contains(string(text), word) {
				t.Errorf("the record has %q: %s", word, text)
			}
		}
		h := c.Record.Header
		if h.Get("User-Agent") != "test/1" || h.Get("X-Pwds") != "shown" || len(c.Removed) != 4 || !strings.HasPrefix(string(c.Record.Body), `{"n":`) {
			t.Errorf("the record is %+v without %q", c.Record, c.Removed)
		}
	}
	if n != 4 {
		t.Errorf("the quarantine has %d records, want 4", n)
	}
}
