package stream

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// An event in a quarantine is accepted, and the answer says so without being asked.
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
