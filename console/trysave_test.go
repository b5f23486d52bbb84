package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// logged collects log lines.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// openCatalog returns a catalog with the sink "web/events", version 1.
func openCatalog(t *testing.T, columns mapping.Columns) (*forebay.Engine, *catalog.Catalog) {
	t.Helper()
	folder := t.TempDir()
	eng, err := forebay.Open(folder, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	cat, err := catalog.Open(filepath.Join(folder, "catalog"), eng, catalog.Options{Extend: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	task, err := cat.CreateSource(catalog.By{Type: "user"}, catalog.SourceSpec{
		ID: "web", Name: "Web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{ID: "events", Name: "Events", TableID: "in.c-web.events", Columns: columns}},
	})
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
	return eng, cat
}

type savedColumns struct {
	State, Text, Error string
	Version            int
	Warnings           []string
	Problems           []placed
}

func TestPlaygroundSaves(t *testing.T) {
	eng, cat := openCatalog(t, mapping.Columns{
		mapping.Path("id", "id", mapping.Default(json.RawMessage("9007199254740993.10"))), mapping.Path("gone", "gone"), mapping.Datetime("at"),
	})
	var log logged
	c := consoleOf(t, eng, console.Options{Catalog: cat, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	opened := answer[openedSink](t, send(t, c, "/try.open?source=web&sink=events", operator, nil), 200)
	if opened.Version != 1 || opened.NoSave != "" || opened.NoShadow != "" || opened.Columns[0]["default"] != "9007199254740993.10" {
		t.Fatalf("got %+v, want version 1 that may be saved and shadowed, the default with all its digits", opened)
	}
	if limited := answer[openedSink](t, send(t, c, "/try.open?source=web&sink=events", readsRecords, nil), 200); limited.NoSave == "" || limited.NoShadow == "" {
		t.Errorf("without the right to changes: %+v", limited)
	}
	draft := []obj{opened.Columns[2], opened.Columns[0], {"type": "template", "name": "label", "template": "local a = 1;\na", "dataType": "int64"}}
	draft[1]["dataType"] = "json"
	request := func(version int) obj {
		return obj{"source": "web", "sink": "events", "columns": draft, "version": version, "description": "a label"}
	}
	diff := answer[struct {
		Version int
		Changes []struct {
			Name, What string
			Fields     []struct{ Field, Before, After string }
		}
		Warnings []string
	}](t, send(t, c, "/try.diff", readsRecords, obj{"source": "web", "sink": "events", "columns": draft}), 200)
	var lines []string
	for _, ch := range diff.Changes {
		line := ch.What + " " + ch.Name
		for _, f := range ch.Fields {
			line += " " + f.Field + " " + f.Before + "→" + f.After
		}
		lines = append(lines, line)
	}
	want := "moved at|changed id dataType →json|added label dataType →int64 name →label template →local a = 1;\na type →template|removed gone name gone→ path gone→ type path→"
	if got := strings.Join(lines, "|"); got != want || diff.Version != 1 {
		t.Errorf("changes since version %d\n%s, want\n%s", diff.Version, got, want)
	}
	if len(diff.Warnings) == 0 || !strings.Contains(diff.Warnings[0], "id") {
		t.Errorf("the column with another type: warnings %q", diff.Warnings)
	}
	draft[1]["dataType"] = ""

	if got := answer[savedColumns](t, send(t, c, "/try.save", operator, request(7)), 409); got.Version != 1 || got.Error == "" {
		t.Errorf("another version: %+v", got)
	}
	got := answer[savedColumns](t, send(t, c, "/try.save", operator, request(1)), 200)
	if got.State != "done" || got.Version != 2 {
		t.Fatalf("got %+v, want got.State == \"done\" and got.Version == 2", got)
	}
	_, sink, err := cat.Sink("web", "events")
	if err != nil || len(sink.Columns) != 3 || string(sink.Columns[1].Default) != "9007199254740993.10" || sink.Columns[2].Template.Content != "local a = 1;\na" {
		t.Errorf("got %+v, %v, want 3 columns, the default with all its digits, the template as written, no error", sink.Columns, err)
	}
	versions, err := cat.Versions(catalog.Ref{Source: "web", Sink: "events"})
	if err != nil || len(versions) != 2 || versions[1].By.UserName != "otto" || versions[1].Description != "a label" {
		t.Errorf("versions %+v, %v", versions, err)
	}
	if got := answer[savedColumns](t, send(t, c, "/try.save", operator, request(2)), 200); got.Version != 2 {
		t.Errorf("columns that are saved already: %+v", got)
	}
	if got := log.String(); !strings.Contains(got, "action=try.save") || !strings.Contains(got, "user=otto") || !strings.Contains(got, "before=1 after=2") {
		t.Errorf("log:\n%s", got)
	}
	draft[2]["template"] = "local"
	if got := answer[savedColumns](t, send(t, c, "/try.save", operator, request(2)), 422); len(got.Problems) != 1 || got.Problems[0].Column != 2 {
		t.Errorf("a template with an error: %+v", got)
	}
	if w := send(t, c, "/try.save", operator, obj{"source": "web", "sink": "other", "columns": draft, "version": 1}); w.Code != 404 {
		t.Errorf("an unknown sink: status %d", w.Code)
	}
	without := consoleOf(t, eng, console.Options{})
	if w := send(t, without, "/try.save", operator, request(2)); w.Code != 409 {
		t.Errorf("without a catalog: status %d", w.Code)
	}
}

// Of many users who save the same version at once, one succeeds, and the others are refused.
func TestPlaygroundSavesAtOnce(t *testing.T) {
	eng, cat := openCatalog(t, mapping.Columns{mapping.UUID("id")})
	c := consoleOf(t, eng, console.Options{Catalog: cat})
	for version := 1; version <= 5; version++ {
		var saved, told atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			column := obj{"type": "path", "name": fmt.Sprintf("v%d_%d", version, i), "path": "kind"}
			wg.Go(func() {
				w := send(t, c, "/try.save", operator, obj{"source": "web", "sink": "events", "columns": []obj{{"type": "uuid", "name": "id"}, column}, "version": version})
				switch w.Code {
				case 200:
					saved.Add(1)
				case 409:
					told.Add(1)
				default:
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		_, sink, err := cat.Sink("web", "events")
		if err != nil || saved.Load() != 1 || told.Load() != 7 || sink.Version.Number != version+1 {
			t.Fatalf("version %d: %d have saved, %d were told, version %d, %v", version, saved.Load(), told.Load(), sink.Version.Number, err)
		}
	}
}
