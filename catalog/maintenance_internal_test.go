package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

func maintainedSink(t *testing.T, target driver.Target) *Maintenance {
	t.Helper()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	m := NewMaintenance(eng, MaintenanceOptions{})
	t.Cleanup(func() {
		m.Close()
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	err = eng.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", OnReject: forebay.Quarantine, Quarantine: buffer.QuarantineBounds{HoldFiles: true},
		Table: forebay.Table{ID: "orders", Columns: mapping.Columns{mapping.Path("id", "id", mapping.RawString())}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// One task of a sink excludes others, a selection is checked, and one that was interrupted says so.
func TestMaintenanceTasks(t *testing.T) {
	m := maintainedSink(t, buffertest.NewMemory())
	ref := Ref{"shop", "orders"}
	if err := m.tasks.reserve(ref.entity()+rejectsKind, "another"); err != nil {
		t.Fatal(err)
	}
	var refused *Error
	if _, err := m.Handle("shop", "orders").DiscardRejects(By{TokenDesc: "olga"}, RejectedSelection{}, "too old"); !errors.As(err, &refused) || refused.Code != Busy || refused.Task != "another" {
		t.Errorf("beside another task: %v", err)
	}
	m.tasks.release(ref.entity() + rejectsKind)
	for _, s := range []RejectedSelection{{IDs: make([]string, MaxSelected+1)}, {Filter: forebay.RejectedFilter{After: "x"}}} {
		if _, err := m.Handle("shop", "orders").ReplayRejects(s); !errors.As(err, &refused) || refused.Code != BadRequest {
			t.Errorf("a selection that cannot be: %v", err)
		}
	}
	if _, err := m.eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	m.cancel() // as a stop does
	task, err := m.Handle("shop", "orders").DiscardRejects(By{TokenDesc: "olga"}, RejectedSelection{}, "too old")
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if task, err = m.Task(task.ID); err != nil || task.Status != Failed || task.Failure != interruptedRejects || task.Rejects.Discarded != 0 || *task.Discard != (Discard{By: "olga", Reason: "too old"}) {
		t.Errorf("got %+v, %v, want an interrupted discard by olga of 0 records", task, err)
	}
	if st, err := m.Handle("shop", "orders").Statistics(t.Context()); err != nil || st.Quarantine.Records != 1 {
		t.Errorf("got %+v, %v, want no error and st.Quarantine.Records == 1", st, err)
	}
}

// A file that is held is seen, and goes where the caller decides.
func TestMaintenanceOfHeldFiles(t *testing.T) {
	mem := buffertest.NewMemory()
	mem.Refuse = func(_ string, row []string) driver.RowError {
		if row[0] == "bad" {
			return driver.RowError{Column: "id", Reason: "23514", Message: "violates the check"}
		}
		return driver.RowError{}
	}
	m := maintainedSink(t, mem)
	for _, id := range []string{"good", "bad", "better"} {
		if _, err := m.eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"id":"`+id+`"}`))); err != nil {
			t.Fatal(err)
		}
	}
	var held *buffer.HeldError
	if err := m.eng.Flush(t.Context(), "shop"); !errors.As(err, &held) {
		t.Fatalf("Flush = %v", err)
	}
	st, err := m.Handle("shop", "orders").Statistics(t.Context())
	if err != nil || len(st.Files) != 1 || !strings.Contains(st.Files[0].RetryReason, "violates the check") {
		t.Fatalf("got %+v, %v, want no error and len(st.Files) == 1 and strings.Contains(st.Files[0].RetryReason, \"violates the check\")", st.Files, err)
	}
	file := st.Files[0].ID
	var refused *Error
	for _, decide := range []func() error{
		func() error { return m.Handle("shop", "orders").RetryFile(t.Context(), "none") },
		func() error { return m.Handle("shop", "orders").SplitFile(t.Context(), "none") },
		func() error { return m.Handle("shop", "orders").QuarantineFile(t.Context(), "none") },
		func() error { return m.Handle("shop", "orders").DiscardFile(t.Context(), "none") },
	} {
		if err := decide(); !errors.As(err, &refused) || refused.Code != FileNotFound {
			t.Errorf("an unknown file: %v", err)
		}
	}
	if err := m.Handle("shop", "none").RetryFile(t.Context(), file); !errors.As(err, &refused) || refused.Code != SinkNotFound {
		t.Errorf("an unknown sink: %v", err)
	}
	if err := m.Handle("shop", "orders").SplitFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := m.eng.Flush(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	page, err := m.Handle("shop", "orders").Rejected(t.Context(), forebay.RejectedFilter{Since: time.Now().Add(-time.Hour)}, 10)
	if err != nil || len(page.Records) != 1 || page.Total != 1 || page.Records[0].Poison == nil || len(mem.Rows("orders")) != 2 {
		t.Errorf("%+v, %v; the table has %v", page, err, mem.Rows("orders"))
	}
	if err := m.Handle("shop", "orders").SplitFile(t.Context(), file); !errors.As(err, &refused) || refused.Code != FileNotFound {
		t.Errorf("a file that is in its table: %v", err)
	}
}
