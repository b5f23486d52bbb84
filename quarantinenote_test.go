package forebay_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// An edit keeps its author and time, even after a replay that fails, and a discard leaves a line with its author and reason.
func TestQuarantineNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		e, _ := openMemory(t, func(o *forebay.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		mustDefine(t, e, events(keeping))
		for range 3 {
			mustIngest(t, e, "web", mapping.JSON([]byte(`{"user":{"name":"Ada"}}`)))
		}
		q := e.Sink("web", "users").Quarantine()
		all := rejectedOf(t, e, forebay.RejectedFilter{})
		if len(all) != 3 || all[0].EditedBy != "" || !all[0].EditedAt.IsZero() {
			t.Fatalf("got %+v, want len(all) == 3 and all[0].EditedBy == \"\" and all[0].EditedAt.IsZero()", all)
		}
		time.Sleep(time.Hour)
		edited := time.Now()
		long := strings.Repeat("é", 150)
		for i, by := range []string{"ann", "", long} {
			must(t, q.With(forebay.QuarantineNote{By: by, Reason: "not of an edit"}).Edit(t.Context(), all[i].ID, 0, []byte(`{"user":{"name":"Bob"}}`)))
		}
		time.Sleep(time.Hour)
		if res, err := q.Replay(t.Context(), all[0].ID); err != nil || res.Rejected != 1 {
			t.Fatalf("got %+v, %v, want no error and res.Rejected == 1", res, err)
		}
		all = rejectedOf(t, e, forebay.RejectedFilter{})
		for i, by := range []string{"ann", "", strings.Repeat("é", 100) + "…"} {
			if all[i].EditedBy != by || !all[i].EditedAt.Equal(edited) {
				t.Errorf("record %d was edited by %q at %s, want %q at %s", i, all[i].EditedBy, all[i].EditedAt, by, edited)
			}
		}
		if c, err := q.Get(t.Context(), all[0].ID); err != nil || c.EditedBy != "ann" || c.Failed != 1 {
			t.Errorf("got %+v, %v, want no error and c.EditedBy == \"ann\" and c.Failed == 1", c.RejectedRecord, err)
		}
		if strings.Contains(log.String(), "rejected records discarded by request") {
			t.Errorf("before a discard the log has %s", log.String())
		}
		if n, err := q.With(forebay.QuarantineNote{By: "ann", Reason: "test data"}).Discard(t.Context(), all[0].ID); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if want := `msg="rejected records discarded by request" source=web sink=users records=1 by=ann reason="test data"`; !strings.Contains(log.String(), want) {
			t.Errorf("the log has %s, want %s", log.String(), want)
		}
	})
}
