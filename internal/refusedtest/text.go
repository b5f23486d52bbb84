package refusedtest

import (
	"errors"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// Text checks that a target which has no text but UTF-8 says so. An untyped column then rejects other bytes when the event arrives, so that the
// event goes to the quarantine, or back to its sender, and no file is held for it. table is the id of a table that does not exist.
func Text(t *testing.T, target driver.Target, table string) {
	t.Helper()
	e, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	def := forebay.Source{ID: sourceID, Sinks: []forebay.Sink{{
		ID: sinkID, OnReject: forebay.Quarantine,
		Table: forebay.Table{ID: table, Columns: mapping.Columns{mapping.Datetime("at"), mapping.Body("body")}},
	}}}
	if err := e.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	ingest := func(body string) (forebay.Result, error) {
		return e.Ingest(t.Context(), sourceID, &mapping.Record{Body: []byte(body), Format: mapping.FormatJSON})
	}
	rows := func(want int64) {
		t.Helper()
		if err := e.Flush(t.Context(), sourceID); err != nil {
			t.Errorf("a file is held: %v", err)
		}
		report, err := e.Verify(t.Context())
		if err != nil || !report.OK() {
			t.Errorf("Verify = %+v, %v", report, err)
		}
		if s := e.Stats().Sinks[0]; s.Target.Rows != want {
			t.Errorf("%d rows are in the table, want %d", s.Target.Rows, want)
		}
	}
	for _, body := range []string{`{"name":"žluť"}`, "{\"name\":\"\x00\xff\"}", `{"name":"b"}`} {
		if _, err := ingest(body); err != nil {
			t.Fatal(err)
		}
	}
	rows(2)
	q := e.Sink(sourceID, sinkID).Quarantine()
	var id string
	for r, err := range q.List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil || id != "" || r.Reason != mapping.NotUTF8.String() || r.Column != "body" || r.Poison != nil {
			t.Errorf("the quarantine has %+v, %v", r, err)
		}
		id = r.ID
	}
	if err := q.Edit(t.Context(), id, 0, []byte(`{"name":"mended"}`)); err != nil {
		t.Error(err)
	}
	if res, err := q.Replay(t.Context(), id); err != nil || res.Replayed != 1 {
		t.Errorf("got %+v, %v, want one replayed record, no error", res, err)
	}
	rows(3)
	def.Sinks[0].OnReject = forebay.Refuse
	if err := e.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	_, err = ingest("{\"name\":\"\xff\"}")
	if cause, ok := errors.AsType[*mapping.Error](err); !ok || cause.Reason != mapping.NotUTF8 || cause.Column != "body" {
		t.Errorf("a record that is not UTF-8: %v", err)
	}
	rows(3)
}
