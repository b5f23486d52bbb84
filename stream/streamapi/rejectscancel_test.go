package streamapi

import (
	"slices"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// A replay is cancelled at any moment, and started again until it completes. Each record becomes one row, and the counts of the tasks add up.
func TestCancelledReplayOfRejects(t *testing.T) {
	s, mem := shop(t)
	const records, replay = 1500, rejects + "/replay"
	s.want(404, "stream.api.taskNotFound", testToken, "DELETE", replay, "")
	recs := make([]*mapping.Record, records)
	for i := range recs {
		recs[i] = mapping.JSON([]byte(`{"n":7}`))
	}
	results, err := s.eng.IngestBatch(t.Context(), "shop", recs)
	if err != nil || results[records-1].Sinks[0].Status != forebay.Quarantined {
		t.Fatal(err)
	}
	s.done("PATCH", b+"/sources/shop/sinks/orders", `{"table":{"mapping":{"columns":[
		{"type":"path","name":"price","path":"n","dataType":"int64","required":true},{"type":"body","name":"body"}]}}}`)
	cancelled, replayed := 0, 0.0
	for replayed < records {
		started := s.want(202, "", testToken, "POST", replay, `{"all":true}`)
		if cancelled < 3 {
			s.want(200, "", testToken, "DELETE", replay, "")
		}
		task, err := s.ended(started.body["taskId"].(string))
		must(t, err)
		if replayed += float64(task.Rejects.Replayed); task.Status == "error" {
			cancelled++
		}
		if q := s.eng.Stats().Sinks[0].Quarantine; q.Records != records-int64(replayed) || q.Replayed != int64(replayed) {
			t.Fatalf("%v records were replayed, and the quarantine counts %+v", replayed, q)
		}
	}
	t.Logf("%d replays were cancelled before their end", cancelled)
	if got := s.prices(mem); len(got) != records || len(slices.Compact(got)) != 1 {
		t.Errorf("the table has %d rows, want %d", len(got), records)
	}
}
