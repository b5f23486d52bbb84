package console_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

type shadowReport struct {
	Runs     bool
	User     string
	End      string
	Compared int64
	Columns  []struct {
		Name, What string
		Different  int64
		Examples   []struct{ Current, Changed *string }
	}
	Errors []struct {
		Changed                 bool
		Reason, Column, Message string
		Records                 int64
	}
	Counts []struct {
		Name string
		N    any
		Bad  bool
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: it did not happen within a minute", what)
		}
	}
}

func TestPlaygroundShadow(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{
		mapping.Path("kind", "kind", mapping.DataType(datatype.String)), mapping.Path("n", "n", mapping.Default("none")),
	}}})
	c := consoleOf(t, eng, console.Options{})
	columns := []obj{
		{"type": "template", "name": "kind", "template": "if Body('kind') == 'b' then null else Body('kind')", "dataType": "string"},
		{"type": "path", "name": "n", "path": "n", "dataType": "int64"},
	}
	request := obj{"source": "web", "sink": "events", "columns": columns, "minutes": 5, "percent": 100}
	if w := send(t, c, "/try.report?source=web&sink=events", readsRecords, nil); w.Code != 200 || strings.TrimSpace(w.Body.String()) != "{}" {
		t.Errorf("before a shadow: %s", w.Body)
	}
	if got := answer[shadowReport](t, send(t, c, "/try.shadow", operator, request), 200); !got.Runs || got.User != "otto" {
		t.Fatalf("got %+v, want got.Runs and got.User == \"otto\"", got)
	}
	if w := send(t, c, "/try.shadow", operator, request); w.Code != 409 {
		t.Errorf("a second shadow: status %d: %s", w.Code, w.Body)
	}
	for _, body := range []string{`{"kind":"a","n":1}`, `{"kind":"b","n":2}`, "{\"kind\":\"\u202e\",\"n\":\"\u202ex\"}"} {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	var got shadowReport
	eventually(t, "three records are compared", func() bool {
		got = answer[shadowReport](t, send(t, c, "/try.report?source=web&sink=events", readsRecords, nil), 200)
		return got.Compared == 3
	})
	kind := got.Columns[0]
	if kind.Different != 1 || len(kind.Examples) != 1 || *kind.Examples[0].Current != "b" || kind.Examples[0].Changed != nil {
		t.Errorf("the changed column: %+v", kind)
	}
	if len(got.Errors) != 1 || !got.Errors[0].Changed || got.Errors[0].Column != "n" || got.Errors[0].Records != 1 || strings.Contains(got.Errors[0].Message, "\u202e") {
		t.Errorf("rejections: %+v", got.Errors)
	}
	if w := send(t, c, "/snapshot", operator, nil); !strings.Contains(w.Body.String(), "Shadow of web/events") {
		t.Errorf("the task is not listed: %s", w.Body)
	}
	if got := answer[shadowReport](t, send(t, c, "/try.stop", operator, obj{"source": "web", "sink": "events"}), 200); got.Runs || got.End != "It was stopped." || got.Compared != 3 {
		t.Errorf("stopped: %+v", got)
	}
	for _, bad := range []obj{{"minutes": 0, "percent": 100}, {"minutes": 1441, "percent": 100}, {"minutes": 1, "percent": 0}, {"minutes": 1, "percent": 101}} {
		bad["source"], bad["sink"], bad["columns"] = "web", "events", columns
		if w := send(t, c, "/try.shadow", operator, bad); w.Code != 422 {
			t.Errorf("%v: status %d, want 422", bad, w.Code)
		}
	}
	if w := send(t, c, "/try.shadow", operator, obj{"source": "web", "sink": "events", "minutes": 1, "percent": 1, "columns": []obj{{"type": "path", "path": "[", "name": "x"}}}); w.Code != 422 {
		t.Errorf("columns with errors: status %d: %s", w.Code, w.Body)
	}

	// The end of the console is the end of its shadows, so the sink is free for a new one.
	answer[shadowReport](t, send(t, c, "/try.shadow", operator, request), 200)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	source, _ := eng.Source("web")
	s, err := eng.Sink("web", source.Sinks[0].ID).Shadow(t.Context(), source.Sinks[0], forebay.ShadowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// Cancelling the task ends the shadow.
func TestPlaygroundShadowEndsWithItsTask(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{mapping.Body("body")}}})
	c := consoleOf(t, eng, console.Options{})
	send(t, c, "/try.shadow", operator, obj{"source": "web", "sink": "events", "columns": []obj{{"type": "body", "name": "body"}}, "minutes": 1440, "percent": 100})
	if w := send(t, c, "/task.cancel", operator, obj{"ID": 1}); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	eventually(t, "the shadow ends", func() bool {
		return !answer[shadowReport](t, send(t, c, "/try.report?source=web&sink=events", readsRecords, nil), 200).Runs
	})
}

// Scripts make nodes and texts, and never markup or code of texts.
func TestScriptsMakeNoMarkup(t *testing.T) {
	files, err := filepath.Glob("web/*.js")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function|setAttribute\("(style|on)|javascript:|\.cssText`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := bad.FindString(string(text)); found != "" {
			t.Errorf("%s has %s, want \"\"", name, found)
		}
	}
}
