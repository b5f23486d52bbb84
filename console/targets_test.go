package console_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// small is a folder of tables with a limit for cells.
type small struct{ *dir.TableDir }

func (small) Limits() datatype.Limits { return datatype.Limits{MaxCell: 40} }

// openTwoTargets opens a catalog with the sinks "web/events" and "web/copies", whose tables have the same id in two targets.
func openTwoTargets(t *testing.T) (eng *forebay.Engine, cat *catalog.Catalog, app, lake *dir.TableDir) {
	t.Helper()
	folder := t.TempDir()
	app, lake = dir.Tables(filepath.Join(folder, "app")), dir.Tables(filepath.Join(folder, "lake"))
	eng, err := forebay.Open(folder, forebay.Options{Target: app, Targets: map[string]driver.Target{"lake": small{lake}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if cat, err = catalog.Open(filepath.Join(folder, "catalog"), eng, catalog.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	column := func(more ...mapping.ColumnOption) mapping.Columns {
		return mapping.Columns{mapping.UUID("id"), mapping.Path("n", "n", append(more, mapping.DataType(datatype.String))...)}
	}
	task, err := cat.CreateSource(catalog.By{Type: "user"}, catalog.SourceSpec{ID: "web", Name: "Web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "events", Name: "Events", TableID: "in.c-web.events", Columns: column()},
		{ID: "copies", Name: "Copies", TableID: "in.c-web.events", Target: "lake", Columns: column(mapping.Secret())},
	}})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	return eng, cat, app, lake
}

// The page of a sink and the page of its table name the target, and the rows and the query come from the target of the sink. A column that is secret in
// one of two tables with the same id is hidden in both, because a sink may have moved. With one target the pages name none.
func TestPagesNameTheTarget(t *testing.T) {
	eng, cat, _, lake := openTwoTargets(t)
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"n":"both"}`))); err != nil {
		t.Fatal(err)
	}
	task, err := cat.Disable(catalog.By{Type: "user"}, catalog.Ref{Source: "web", Sink: "copies"})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"n":"one"}`))); err != nil {
		t.Fatal(err)
	}
	if err := eng.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := consoleOf(t, eng, console.Options{Catalog: cat})
	console.SetTailTime(c, time.Minute)
	type table struct {
		shownTable
		Target string
	}
	open := func(sink string) table {
		t.Helper()
		return answer[table](t, send(t, c, "/tables.open?source=web&sink="+sink, readsRecords, nil), 200)
	}
	if got := open("events"); got.Target != "default target" || len(got.Rows) != 2 || *got.Rows[1][1].T != "***" || strings.Contains(got.Query, lake.Path("in.c-web.events")) {
		t.Errorf("the default target: %+v", got)
	}
	if got := open("copies"); got.Target != "lake" || len(got.Rows) != 1 || *got.Rows[0][1].T != "***" || !strings.Contains(got.Query, lake.Path("in.c-web.events")) {
		t.Errorf("the lake: %+v", got)
	}
	shows(t, c, "page=sink&source=web&sink=events", `{"name":"Target","value":"default target"}`)
	shows(t, c, "page=sink&source=web&sink=copies", `{"name":"Target","value":"lake"}`)

	one, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{mapping.Path("n", "n")}}})
	c = consoleOf(t, one, console.Options{})
	if w := send(t, c, "/tables.open?source=web&sink=events", readsRecords, nil); w.Code != 200 || strings.Contains(w.Body.String(), `"target":"`) && !strings.Contains(w.Body.String(), `"target":""`) {
		t.Errorf("with one target: %s", w.Body)
	}
	if body := shows(t, c, "page=sink&source=web&sink=events", "web.events"); strings.Contains(body, `"Target"`) {
		t.Errorf("with one target: %s", body)
	}
}

// The playground applies the limits of the target of the sink.
func TestPlaygroundHasTheLimitsOfTheTarget(t *testing.T) {
	eng, cat, _, _ := openTwoTargets(t)
	c := consoleOf(t, eng, console.Options{Catalog: cat})
	for sink, rejected := range map[string]bool{"events": false, "copies": true} {
		opened := answer[openedSink](t, send(t, c, "/try.open?source=web&sink="+sink, readsRecords, nil), 200)
		row := answer[triedRow](t, send(t, c, "/try.run", readsRecords, obj{
			"source": "web", "sink": sink, "columns": opened.Columns, "event": obj{"headers": "Content-Type: application/json\n", "body": `{"n":"` + strings.Repeat("x", 50) + `"}`, "ip": "192.0.2.7", "received": "2026-11-23T12:00:00Z"},
		}), 200)
		if (row.Rejected != "") != rejected || len(row.Problems) > 0 {
			t.Errorf("sink %s: %+v, rejected must be %v", sink, row, rejected)
		}
	}
}
