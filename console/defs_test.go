package console_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

type defVersion struct {
	Number           int
	At               int64
	By, Change, Hash string
}

type defVersions struct {
	Current  int
	Versions []defVersion
	More     bool
}

type defDiff struct {
	From, To defVersion
	Lines    []string
	Equal    bool
	Rest     int
}

// change makes a new version of the sink and waits for it.
func change(t *testing.T, cat *catalog.Catalog, by catalog.By, p catalog.SinkPatch) {
	t.Helper()
	task, err := cat.UpdateSink(by, "web", "events", p)
	if err == nil {
		task, err = task.Wait(t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		t.Fatal(task, err)
	}
}

// Without a catalog there is no such page. With one it needs Records, and Changes to roll back.
func TestDefinitionsRights(t *testing.T) {
	eng, cat := openCatalog(t, mapping.Columns{mapping.UUID("id")})
	without := consoleOf(t, eng, console.Options{})
	if w := send(t, without, "/defs.list", operator, nil); w.Code == 200 {
		t.Errorf("without a catalog: status %d", w.Code)
	}
	c := consoleOf(t, eng, console.Options{Catalog: cat})
	rollback := obj{"ref": "web/events", "version": 1, "current": 1}
	for _, tc := range []struct {
		target, token string
		body          any
		headers       []string
		status        int
	}{
		{"/defs.list", "", nil, nil, 401},
		{"/defs.list", reader, nil, nil, 403},
		{"/defs.list", readsRecords, nil, nil, 200},
		{"/defs.versions?ref=web", reader, nil, nil, 403},
		{"/defs.diff?ref=web&from=1&to=1", reader, nil, nil, 403},
		{"/defs.diff?ref=web&from=1&to=1", readsRecords, nil, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"/defs.rollback", "", rollback, nil, 401},
		{"/defs.rollback", readsRecords, rollback, nil, 403},
		{"/defs.rollback", operator, rollback, []string{"Origin", "https://evil.example"}, 403},
		{"/defs.rollback", operator, nil, nil, 405},
		{"/defs.versions?ref=nobody", operator, nil, nil, 404},
		{"/defs.versions?ref=web/nobody", operator, nil, nil, 404},
		{"/defs.versions?ref=", operator, nil, nil, 404},
		{"/defs.versions?ref=web&before=x", operator, nil, nil, 400},
		{"/defs.diff?ref=web/events&from=1&to=9", operator, nil, nil, 404},
		{"/defs.diff?ref=web/events", operator, nil, nil, 404},
		{"/defs.rollback", operator, obj{"ref": "web/nobody", "version": 1, "current": 1}, nil, 404},
		{"/defs.rollback", operator, obj{"ref": "web/events", "version": 9, "current": 1}, nil, 404},
		{"/defs.rollback", operator, obj{"ref": "web/events", "version": 1, "current": 2}, nil, 409},
		{"/defs.rollback", operator, []int{1}, nil, 400},
	} {
		if w := send(t, c, tc.target, tc.token, tc.body, tc.headers...); w.Code != tc.status {
			t.Errorf("%s %v with %q: status %d, want %d: %s", tc.target, tc.headers, tc.token, w.Code, tc.status, w.Body)
		}
	}
	snapshot := send(t, c, "/snapshot?page=defs", operator, nil).Body.String()
	if !strings.Contains(snapshot, `"name":"defs"`) || strings.Contains(send(t, c, "/snapshot", reader, nil).Body.String(), `"name":"defs"`) {
		t.Errorf("the page: %s", snapshot)
	}
	if v, err := cat.Versions(catalog.Ref{Source: "web", Sink: "events"}); err != nil || len(v) != 1 {
		t.Errorf("got %+v, %v, want no error and len(v) == 1", v, err)
	}
}

// Versions say who, when and why. A rollback makes a new one with the user's name, and refuses to undo a change that its user has not seen.
func TestDefinitionsRollback(t *testing.T) {
	var lines logged
	eng, cat := openCatalog(t, mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")})
	c := consoleOf(t, eng, console.Options{Catalog: cat, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	template := mapping.Template("label", "local a = '<b>';\na + Body('kind')")
	hostile := "<img src=x onerror=alert(1)>\u202e"
	change(t, cat, catalog.By{Type: "user", UserName: hostile}, catalog.SinkPatch{
		Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind"), template}, ChangeDescription: "a label" + hostile,
	})
	shown := "<img src=x onerror=alert(1)>‹U+202E›"

	listed := answer[struct {
		List []struct {
			Ref, Name, Kind string
			Disabled        bool
			Version         defVersion
		}
		Matching int
	}](t, send(t, c, "/defs.list", readsRecords, nil), 200)
	if len(listed.List) != 2 || listed.List[0].Ref != "web" || listed.List[1].Ref != "web/events" || listed.List[1].Version.Number != 2 || listed.List[1].Version.By != shown {
		t.Fatalf("got %+v, want web, and web/events in version 2 by its caller", listed)
	}
	if w := send(t, c, "/defs.list?filter=nobody", readsRecords, nil); !strings.Contains(w.Body.String(), `"list":[]`) {
		t.Errorf("a filter: %s", w.Body)
	}
	source, err := cat.Source("web")
	if err != nil || source.Secret == "" {
		t.Fatal(err)
	}
	versions := func() defVersions {
		return answer[defVersions](t, send(t, c, "/defs.versions?ref=web/events", readsRecords, nil), 200)
	}
	v := versions()
	if v.Current != 2 || len(v.Versions) != 2 || v.Versions[0].Number != 2 || v.Versions[0].Change != "a label"+shown || v.Versions[0].By != shown || v.Versions[0].At == 0 || v.More {
		t.Errorf("got %+v, want version 2 of 2, \"a label\" by its caller", v)
	}
	if v := answer[defVersions](t, send(t, c, "/defs.versions?ref=web/events&before=2", readsRecords, nil), 200); len(v.Versions) != 1 || v.Versions[0].Number != 1 {
		t.Errorf("versions before 2: %+v", v)
	}
	diff := func(from, to int) defDiff {
		w := send(t, c, fmt.Sprintf("/defs.diff?ref=web/events&from=%d&to=%d", from, to), readsRecords, nil)
		if strings.Contains(w.Body.String(), source.Secret) {
			t.Errorf("the secret is in %s", w.Body)
		}
		return answer[defDiff](t, w, 200)
	}
	d := diff(1, 2)
	added := func(d defDiff, mark string) (lines []string) {
		for _, line := range d.Lines {
			if text, ok := strings.CutPrefix(line, mark); ok {
				lines = append(lines, strings.TrimSpace(text))
			}
		}
		return lines
	}
	if got := strings.Join(added(d, "+"), "|"); !strings.Contains(got, `local a = '<b>';\n|a + Body('kind')"`) || d.Equal || len(added(d, "-")) > 1 {
		t.Errorf("the difference is\n%s", strings.Join(d.Lines, "\n"))
	}
	if back := diff(2, 1); !slices.Equal(added(back, "-"), added(d, "+")) {
		t.Errorf("the way back is\n%s", strings.Join(back.Lines, "\n"))
	}
	if whole := diff(2, 2); !whole.Equal || len(added(whole, "+")) > 0 || len(whole.Lines) < 10 {
		t.Errorf("the content is\n%s", strings.Join(whole.Lines, "\n"))
	}

	if w := send(t, c, "/defs.rollback", operator, obj{"ref": "web/events", "version": 1, "current": 1}); w.Code != 409 {
		t.Errorf("a rollback by who has seen version 1: status %d: %s", w.Code, w.Body)
	}
	got := answer[savedColumns](t, send(t, c, "/defs.rollback", operator, obj{"ref": "web/events", "version": 1, "current": 2}), 200)
	if got.State != "done" || got.Version != 3 {
		t.Fatalf("got %+v, want got.State == \"done\" and got.Version == 3", got)
	}
	if v = versions(); v.Current != 3 || v.Versions[0].By != "otto" || v.Versions[0].Hash != v.Versions[2].Hash || v.Versions[0].Hash == v.Versions[1].Hash {
		t.Errorf("got %+v, want version 3 by otto with the columns of the first", v)
	}
	if d := diff(1, 3); !d.Equal || len(added(d, "+"))+len(added(d, "-")) > 0 {
		t.Errorf("after the rollback: %+v", d)
	}
	if _, sink, err := cat.Sink("web", "events"); err != nil || len(sink.Columns) != 2 {
		t.Errorf("got %+v, %v, want no error and len(sink.Columns) == 2", sink.Columns, err)
	}
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"kind":"a"}`))); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"action=defs.rollback", "user=otto", "ref=web/events", "to=1", "before=2", "after=3"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, lines.String())
		}
	}
}

// Large definitions are compared within bounds.
func TestLargeDefinitions(t *testing.T) {
	columns := func(n int, path string) (list mapping.Columns) {
		for i := range n {
			list = append(list, mapping.Path(fmt.Sprintf("c%03d", i), fmt.Sprintf("%s%d", path, i)))
		}
		return list
	}
	eng, cat := openCatalog(t, columns(90, "a"))
	c := consoleOf(t, eng, console.Options{Catalog: cat})
	changed := columns(90, "a")
	changed[45] = mapping.Path("c045", "other")
	changed = slices.Insert(changed, 10, mapping.Path("new", "new")) // the columns after it are the same in other lines
	change(t, cat, catalog.By{Type: "user"}, catalog.SinkPatch{Columns: changed})
	d := answer[defDiff](t, send(t, c, "/defs.diff?ref=web/events&from=1&to=2", operator, nil), 200)
	if len(d.Lines) > 30 || slices.ContainsFunc(d.Lines, func(l string) bool { return strings.HasPrefix(l, "-") && !strings.Contains(l, "a45") }) || !slices.ContainsFunc(d.Lines, func(l string) bool { return strings.HasPrefix(l, "@") }) ||
		!slices.ContainsFunc(d.Lines, func(l string) bool { return strings.HasPrefix(l, "+") && strings.Contains(l, "other") }) {
		t.Errorf("got %d lines %q, want a short list with the lines that differ", len(d.Lines), d.Lines)
	}
	// Two templates of many lines, all different: more than are shown, and too many to compare each with each.
	for _, word := range []string{"one", "two"} {
		list := mapping.Columns{mapping.Template("long", "'"+strings.Repeat("é", 2100)+"'")}
		for i := range 20 {
			list = append(list, mapping.Template(fmt.Sprintf("t%d", i), strings.Repeat("// "+word+"\n", 125)+"'x'"))
		}
		change(t, cat, catalog.By{Type: "user"}, catalog.SinkPatch{Columns: list})
	}
	d = answer[defDiff](t, send(t, c, "/defs.diff?ref=web/events&from=3&to=4", operator, nil), 200)
	if len(d.Lines) != 4000 || d.Rest < 1000 {
		t.Errorf("got %d lines, %d more, want 4000, at least 1000", len(d.Lines), d.Rest)
	}
	d = answer[defDiff](t, send(t, c, "/defs.diff?ref=web/events&from=3&to=3", operator, nil), 200)
	cut := false
	for _, line := range d.Lines {
		cut = cut || strings.HasSuffix(line, "é…")
		if len(line) > 5000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if !cut {
		t.Error("the long line was not cut")
	}
}
