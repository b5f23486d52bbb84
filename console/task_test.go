package console_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// Shadows, which run for hours, and flushes of tables that are away leave room for other tasks.
func TestTasksOfOneKindLeaveRoomForOthers(t *testing.T) {
	memory := buffertest.NewMemory()
	memory.Before = func(_ context.Context, call buffertest.Call) error {
		if call.Op == buffertest.OpImport {
			return errors.New("the table is away")
		}
		return nil
	}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: memory, Target: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	def := forebay.Source{ID: "web"}
	for i := range 9 {
		id := fmt.Sprintf("s%d", i)
		def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: "web." + id, Columns: mapping.Columns{mapping.Path("kind", "kind")}}})
	}
	if err := eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"kind":"a"}`))); err != nil {
		t.Fatal(err)
	}
	c := consoleOf(t, eng, console.Options{})
	columns := []obj{{"type": "path", "name": "kind", "path": "sort"}}
	for i := range 8 {
		answer[any](t, send(t, c, "/try.shadow", operator, obj{"source": "web", "sink": fmt.Sprintf("s%d", i), "columns": columns, "minutes": 60, "percent": 100}), 200)
	}
	for i := range 8 {
		answer[any](t, send(t, c, "/sink.flush", operator, obj{"source": "web", "sink": fmt.Sprintf("s%d", i)}), 200)
	}
	if w := send(t, c, "/sink.flush", operator, obj{"source": "web", "sink": "s8"}); w.Code != 429 {
		t.Errorf("a ninth flush: status %d: %s", w.Code, w.Body)
	}
	file := eng.Stats().Sinks[8].Files[0].ID
	begun := answer[started](t, send(t, c, "/sink.discard", operator, obj{"source": "web", "sink": "s8", "file": file, "rows": 1}), 200)
	if state, progress := taskOf(t, c, begun.Task); state != "done" {
		t.Errorf("a discard beside them: %s, %s", state, progress)
	}
}

// Rows that arrive while a discard waits for its turn are not lost, because the user has not agreed to that.
func TestDiscardOfAFileThatGrows(t *testing.T) {
	memory, proceed := buffertest.NewMemory(), make(chan struct{})
	memory.Before = func(_ context.Context, call buffertest.Call) error {
		if call.Op == buffertest.OpPut {
			<-proceed
		}
		return nil
	}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: memory, Target: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.Path("kind", "kind")}},
		Settings: forebay.Settings{Upload: trigger.Conditions{Count: 2}},
	}}}); err != nil {
		t.Fatal(err)
	}
	row := mapping.JSON([]byte(`{"kind":"a"}`))
	ingest(t, eng, row, row, row) // the upload of the first two has the turn
	c := consoleOf(t, eng, console.Options{})
	f := eng.Stats().Sinks[0].Files[0]
	if f.State != buffer.FileWriting {
		t.Fatalf("got %+v, want f.State == %v", f, buffer.FileWriting)
	}
	begun := answer[started](t, send(t, c, "/sink.discard", operator, obj{"source": "web", "sink": "orders", "file": f.ID, "rows": 3}), 200)
	ingest(t, eng, row)
	close(proceed)
	if state, progress := taskOf(t, c, begun.Task); state != "failed" || progress != "the file has 4 rows now; nothing was discarded" {
		t.Errorf("got %s, %s, want state == \"failed\" and progress == \"the file has 4 rows now; nothing was discarded\"", state, progress)
	}
	if n := eng.Stats().Sinks[0].Discarded.Rows; n != 0 {
		t.Errorf("%d rows were discarded, want 0", n)
	}
}
