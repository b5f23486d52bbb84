package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// A record is shown unchanged. It is never parsed and printed, has no secrets, and nothing of it is markup.
func TestQuarantineRecord(t *testing.T) {
	c, eng, _ := newShop(t, console.Options{})
	src, _ := eng.Source("web")
	src.KeepHeaders = []string{"X-Bad"}
	if err := eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	const raw = "{\"price\": 9007199254740993.5,\r\n \"price\": \"<img src=x onerror=alert(1)>\", \"a\":1.50, \"b\":\"\\u202e\", \"page\":\"p\"}"
	ingest(t, eng, &mapping.Record{
		Body: []byte(raw), Host: "shop.example", ClientIP: netip.MustParseAddr("192.0.2.1"),
		Request: mapping.RequestLine{Method: "POST", Path: "/in/\u202e<b>", Query: "token=canary&x=1"},
		Header:  http.Header{"Content-Type": {"application/json"}, "Authorization": {"canary"}, "X-Bad": {"\x1b[31m\u202e\xff<script>"}},
	})
	r := first(t, c)
	if r.Body.Text != raw || r.Body.Binary || r.Body.Rest != 0 || r.Came != nil {
		t.Errorf("the body is %+v, want %q", r.Body, raw)
	}
	if r.Host != "shop.example" || r.Client != "192.0.2.1" || r.Request != "POST /in/‹U+202E›<b>?token=***&x=1" || !slices.Equal(r.Removed, []string{"Authorization"}) {
		t.Errorf("got %+v, want the request without its secrets", r)
	}
	if want := [][2]string{{"Content-Type", "application/json"}, {"X-Bad", "‹U+001B›[31m‹U+202E›‹U+FFFD›<script>"}}; !slices.Equal(r.Headers, want) {
		t.Errorf("headers %q, want %q", r.Headers, want)
	}
	if r.Passes || r.Problem != "" || len(r.Cells) != 2 || r.Cells[0].Error == "" || r.Cells[0].Column != "id" || r.Cells[0].Type != "int64" {
		t.Errorf("the row is %+v", r.Cells)
	}
	w := fetch(t, c, "quarantine.record", "sink", r.Sink, "id", r.ID)
	if strings.Contains(w.Body.String(), "canary") || strings.Contains(w.Body.String(), "<b>") || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("got %v: %s, want !strings.Contains(w.Body.String(), \"canary\") and !strings.Contains(w.Body.String(), \"<b>\") and w.Header().Get(\"Content-Type\") == \"application/json; charset=utf-8\"", w.Header(), w.Body)
	}
	for _, missing := range [][2]string{{"web/orders", "x"}, {"web/nobody", r.ID}, {"", ""}, {"web/orders", "../../x"}, {"web/visits", r.ID}} {
		if w := fetch(t, c, "quarantine.record", "sink", missing[0], "id", missing[1]); w.Code != 404 {
			t.Errorf("%q: status %d: %s, want 404", missing, w.Code, w.Body)
		}
	}
}

// Long bodies are shown in part. Bytes that are no text are marked, and the boundary cuts no character.
func TestQuarantineBodies(t *testing.T) {
	c, eng, _ := newShop(t, console.Options{})
	long := `{"page":"p","texts":"` + strings.Repeat("é", 1<<20) + `"}`
	ingest(t, eng, mapping.JSON([]byte(long)))
	r := first(t, c)
	if n := len(r.Body.Text); n > 64<<10 || n < 64<<10-4 || r.Body.Rest != len(long)-n || !strings.HasPrefix(long, r.Body.Text) || r.Body.Binary {
		t.Errorf("%d bytes are shown, %d not, binary %v", n, r.Body.Rest, r.Body.Binary)
	}
	r = answer[recordAnswer](t, fetch(t, c, "quarantine.record", "sink", r.Sink, "id", r.ID, "whole", "1"), 200)
	if n := len(r.Body.Text); n > 1<<20 || n < 1<<20-4 || r.Body.Rest != len(long)-n {
		t.Errorf("%d bytes are shown of all, %d not", n, r.Body.Rest)
	}
	ingest(t, eng, mapping.JSON([]byte("\x00\xff\xfe{\xc3\xa9")))
	all := answer[listAnswer](t, fetch(t, c, "quarantine.list", "sink", "web/visits"), 200)
	r = answer[recordAnswer](t, fetch(t, c, "quarantine.record", "sink", "web/visits", "id", all.Records[0].ID), 200)
	if !r.Body.Binary || r.Body.Text != "\x00‹FF›‹FE›{é" {
		t.Errorf("got %+v, want r.Body.Binary and r.Body.Text == \"\\x00‹FF›‹FE›{é\"", r.Body)
	}
}

// Edit, test, replay, discard. A test stores nothing, and an edit of a record that another user has changed is refused.
func TestQuarantineEdit(t *testing.T) {
	var lines logged
	c, eng, memory := newShop(t, console.Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	ingest(t, eng, mapping.JSON([]byte(`{"price":1,"page":"p"}`)), mapping.JSON([]byte(`{"price":2,"page":"p"}`)))
	r := first(t, c)
	ref := map[string]any{"sink": r.Sink, "id": r.ID}
	with := func(more map[string]any) map[string]any {
		all := map[string]any{"sink": r.Sink, "id": r.ID}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	tested := answer[recordAnswer](t, send(t, c, "/x/quarantine.test", readsRecords, with(map[string]any{"body": `{"id":7,"price":null}`})), 200)
	if !tested.Passes || tested.Cells[0].Value != "7" || !tested.Cells[1].Null {
		t.Errorf("test: %+v", tested)
	}
	if after := first(t, c); after.Body.Text != r.Body.Text || after.Revision != 0 {
		t.Errorf("after a test: %+v", after)
	}
	res := answer[map[string]int](t, send(t, c, "/x/quarantine.replay", operator, ref), 200)
	if res["rejected"] != 1 || res["replayed"] != 0 {
		t.Errorf("replay: %v", res)
	}
	edit := with(map[string]any{"revision": 0, "body": `{"id":7,"price":"canary"}`})
	if w := send(t, c, "/x/quarantine.edit", operator, edit); w.Code != 409 {
		t.Errorf("an edit of an earlier revision: status %d: %s", w.Code, w.Body)
	}
	edit["revision"] = 1
	answer[any](t, send(t, c, "/x/quarantine.edit", operator, edit), 200)
	if after := first(t, c); after.Body.Text != edit["body"] || after.Came == nil || after.Came.Text != r.Body.Text || after.Passes || after.Failed != 1 || after.EditedBy != "otto" {
		t.Errorf("after the edit: %+v", after)
	}
	edit["revision"], edit["body"] = 2, `{"id":8,"price":3}`
	answer[any](t, send(t, c, "/x/quarantine.edit", operator, edit), 200)
	if res := answer[map[string]int](t, send(t, c, "/x/quarantine.replay", operator, ref), 200); res["replayed"] != 1 {
		t.Errorf("replay: %v", res)
	}
	if res := answer[map[string]int](t, send(t, c, "/x/quarantine.replay", operator, ref), 200); res["gone"] != 1 {
		t.Errorf("replay again: %v", res)
	}
	if w := send(t, c, "/x/quarantine.edit", operator, edit); w.Code != 404 {
		t.Errorf("an edit of what is gone: status %d: %s", w.Code, w.Body)
	}
	next := first(t, c)
	if res := answer[map[string]int](t, send(t, c, "/x/quarantine.discard", operator, map[string]any{"sink": next.Sink, "id": next.ID, "why": "sent by a probe"}), 200); res["discarded"] != 1 {
		t.Errorf("discard: %v", res)
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if rows := fmt.Sprint(memory.Rows("web.orders")); rows != "[[8 3]]" {
		t.Errorf("the table has %s", rows)
	}
	for _, want := range []string{"quarantine.edit", "quarantine.replay", "quarantine.discard", "user=otto", "record=" + r.ID, "sink=web/orders", `why="sent by a probe"`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, lines.String())
		}
	}
	if strings.Contains(lines.String(), "canary") {
		t.Errorf("the log has the body:\n%s", lines.String())
	}
}

// What is too large, not understood or about nothing is refused with a reason.
func TestQuarantineRefusals(t *testing.T) {
	c, eng, memory := newShop(t, console.Options{})
	ingest(t, eng, mapping.JSON([]byte(`{"price":1,"page":"p"}`)))
	r := first(t, c)
	for _, tc := range []struct {
		name   string
		body   any
		status int
	}{
		{"quarantine.test", map[string]any{"sink": r.Sink, "id": r.ID, "body": strings.Repeat("x", 3<<20)}, 413},
		{"quarantine.test", map[string]any{"sink": r.Sink, "id": "x", "body": "{}"}, 404},
		{"quarantine.test", map[string]any{"sink": r.Sink, "id": r.ID, "other": 1}, 400},
		{"quarantine.edit", []int{1}, 400},
		{"quarantine.edit", map[string]any{"sink": "web/nobody", "id": r.ID, "body": "{}"}, 404},
		{"quarantine.replay", map[string]any{"sink": "web/nobody", "id": r.ID}, 404},
		{"quarantine.discard", map[string]any{"sink": "nowhere", "id": r.ID}, 404},
		{"quarantine.replayall", map[string]any{"sink": r.Sink}, 400},
		{"quarantine.replayall", map[string]any{"sink": r.Sink, "count": -1}, 400},
		{"quarantine.replayall", map[string]any{"sink": r.Sink, "count": 100_001}, 400},
		{"quarantine.discardall", map[string]any{"sink": "web/nobody", "count": 1}, 404},
		{"quarantine.discardall", map[string]any{"sink": r.Sink, "count": 1, "since": "never"}, 400},
		{"quarantine.discardall", map[string]any{"sink": r.Sink, "count": 1, "until": "1h"}, 404},
	} {
		if w := send(t, c, "/x/"+tc.name, operator, tc.body); w.Code != tc.status || !strings.Contains(w.Body.String(), `"error"`) {
			t.Errorf("got %s %.80v: status %d, want %d: %.300s", tc.name, tc.body, w.Code, tc.status, w.Body)
		}
	}
	if n := recordsIn(eng); n != 1 {
		t.Errorf("%d records are left, want 1", n)
	}

	// A row that the target has refused is edited by its cells. A row that does not fit is refused.
	memory.Refuse = func(table string, row []string) driver.RowError {
		if table == "web.orders" && row[0] == "6" {
			return driver.RowError{Reason: "22003", Message: "a cause that names no column"}
		} else if table == "web.orders" {
			return driver.RowError{Column: "price", Reason: "22003", Message: "out of <b>range</b>"}
		}
		return driver.RowError{}
	}
	ingest(t, eng, mapping.JSON([]byte(`{"id":5,"price":5000,"page":"p"}`)), mapping.JSON([]byte(`{"id":6,"price":5000,"page":"p"}`)))
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	g := answer[groupsAnswer](t, fetch(t, c, "quarantine.groups", "target", "1"), 200)
	if len(g.Groups) != 2 || g.Groups[0].Reason != "22003" || g.Groups[0].Example != "out of <b>range</b>" || g.Groups[0].Count != 1 || g.Groups[1].Column != "" {
		t.Fatalf("got %+v, want two groups, 22003 with its example first", g)
	}
	if n := answer[groupsAnswer](t, fetch(t, c, "quarantine.groups", "group", "1", "sink", r.Sink, "reason", "22003", "mapping", g.Groups[1].Mapping, "target", "1"), 200).Records; n != 1 {
		t.Errorf("the group without a column has %d records: those of other columns are no part of it", n)
	}
	r = first(t, c, "target", "1")
	if r.Body.Text != `{"id":"5","price":"5000"}` || !r.Passes {
		t.Errorf("got %+v, want r.Body.Text == `{\"id\":\"5\",\"price\":\"5000\"}` and r.Passes", r)
	}
	if w := send(t, c, "/x/quarantine.edit", operator, map[string]any{"sink": r.Sink, "id": r.ID, "body": `{"price":"many"}`}); w.Code != 422 || !strings.Contains(w.Body.String(), "price") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if tested := answer[recordAnswer](t, send(t, c, "/x/quarantine.test", operator, map[string]any{"sink": r.Sink, "id": r.ID, "body": `[]`}), 200); tested.Passes || tested.Problem == "" {
		t.Errorf("got %+v, want !tested.Passes and tested.Problem != \"\"", tested)
	}

	// The records of a sink that accepts no events are shown, and a record that cannot be tested says why.
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "all", Table: forebay.Table{ID: "web.all", Columns: mapping.Columns{mapping.UUID("id")}}}}}); err != nil {
		t.Fatal(err)
	}
	if r := first(t, c); r.Passes || r.Problem == "" || r.Body.Text == "" {
		t.Errorf("got %+v, want !r.Passes and r.Problem != \"\" and r.Body.Text != \"\"", r)
	}
	if w := send(t, c, "/x/quarantine.replay", operator, map[string]any{"sink": r.Sink, "id": r.ID}); w.Code != 404 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// taskOf waits until the task with an id has ended.
func taskOf(t *testing.T, c *console.Console, id int) (state, progress string) {
	t.Helper()
	eventually(t, "the end of a task", func() bool {
		got := answer[struct {
			Full struct {
				Tasks []struct {
					ID                     int
					State, Progress, Error string
				}
			}
		}](t, fetch(t, c, "snapshot", "page", "quarantine"), 200)
		for _, task := range got.Full.Tasks {
			if task.ID == id && task.State != "running" {
				state, progress = task.State, task.Progress+task.Error
				return true
			}
		}
		return false
	})
	return state, progress
}

type started struct{ Task, Count int }

// A change of a filter is about the records that were counted, never about more than the user has agreed to, and continues when the page
// is closed.
func TestQuarantineBulk(t *testing.T) {
	var lines logged
	c, eng, memory := newShop(t, console.Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	prices := func(n int) {
		var recs []*mapping.Record
		for i := range n {
			recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"id":%d,"price":"1.5%d","page":"p"}`, i, i)))
		}
		ingest(t, eng, recs...)
	}
	prices(600)
	ingest(t, eng, mapping.JSON([]byte(`{"price":3}`))) // both sinks, for other reasons
	seen := answer[groupsAnswer](t, fetch(t, c, "quarantine.groups", "column", "price"), 200)
	if seen.Records != 600 {
		t.Fatalf("got %+v, want seen.Records == 600", seen)
	}
	until, err := time.Parse(time.RFC3339Nano, seen.Until)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(until.Add(time.Millisecond))) // times of rejections have milliseconds
	prices(5)                                             // came after the user has looked
	defineShop(t, eng, "cents")
	filter := func(until string, count int) map[string]any {
		return map[string]any{"sink": "web/orders", "column": "price", "until": until, "count": count}
	}
	// Fewer than all matching records: the oldest. The filter is not the page. Nothing was listed.
	begun := answer[started](t, send(t, c, "/x/quarantine.replayall", operator, filter(seen.Until, 10)), 200)
	if state, progress := taskOf(t, c, begun.Task); begun.Count != 10 || state != "done" || progress != "10 of 10: 10 replayed, 0 rejected again, 0 gone before" {
		t.Fatalf("got %+v: %s, %s, want begun.Count == 10 and state == \"done\" and progress == \"10 of 10: 10 replayed, 0 rejected again, 0 gone before\"", begun, state, progress)
	}
	begun = answer[started](t, send(t, c, "/x/quarantine.replayall", operator, filter(seen.Until, 600)), 200)
	if state, progress := taskOf(t, c, begun.Task); begun.Count != 590 || state != "done" || progress != "590 of 590: 590 replayed, 0 rejected again, 0 gone before" {
		t.Fatalf("got %+v: %s, %s, want begun.Count == 590 and state == \"done\" and progress == \"590 of 590: 590 replayed, 0 rejected again, 0 gone before\"", begun, state, progress)
	}
	if n := answer[groupsAnswer](t, fetch(t, c, "quarantine.groups"), 200).Records; n != 5+2 {
		t.Errorf("%d records are left, want 5+2", n)
	}
	if w := send(t, c, "/x/quarantine.replayall", operator, filter(seen.Until, 600)); w.Code != 404 {
		t.Errorf("again: status %d: %s", w.Code, w.Body)
	}
	if w := send(t, c, "/x/quarantine.discardall", operator, map[string]any{"count": 1, "why": strings.Repeat("x", 1001)}); w.Code != 400 {
		t.Errorf("a reason that is too long: status %d: %s", w.Code, w.Body)
	}
	// All sinks, with a rejection that stays.
	begun = answer[started](t, send(t, c, "/x/quarantine.replayall", operator, map[string]any{"count": 100}), 200)
	if state, progress := taskOf(t, c, begun.Task); state != "done" || progress != "7 of 7: 5 replayed, 2 rejected again, 0 gone before" {
		t.Errorf("got %s, %s, want state == \"done\" and progress == \"7 of 7: 5 replayed, 2 rejected again, 0 gone before\"", state, progress)
	}
	begun = answer[started](t, send(t, c, "/x/quarantine.discardall", operator, map[string]any{"text": "id", "count": 1, "why": "a test"}), 200)
	if state, progress := taskOf(t, c, begun.Task); state != "done" || progress != "1 of 1: 1 discarded, 0 gone before" {
		t.Errorf("got %s, %s, want state == \"done\" and progress == \"1 of 1: 1 discarded, 0 gone before\"", state, progress)
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if n := len(memory.Rows("web.orders")); n != 605 {
		t.Errorf("the table has %d rows", n)
	}
	if n := recordsIn(eng); n != 1 {
		t.Errorf("%d records are left, want 1", n)
	}
	for _, want := range []string{"quarantine.replayall", "user=otto", "count=600", "records=590", "590 replayed", `why="a test"`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, lines.String())
		}
	}
}

// A task that cannot continue says how far it got. Close ends it.
func TestQuarantineBulkFails(t *testing.T) {
	c, eng, _ := newShop(t, console.Options{})
	ingest(t, eng, mapping.JSON([]byte(`{"price":3}`)))
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Disabled: true}); err != nil {
		t.Fatal(err)
	}
	begun := answer[started](t, send(t, c, "/x/quarantine.replayall", operator, map[string]any{"count": 5}), 200)
	if state, text := taskOf(t, c, begun.Task); state != "failed" || !strings.Contains(text, "0 of 2: 0 replayed") || !strings.Contains(text, "disabled") {
		t.Errorf("%s: got %s, want state == \"failed\" and strings.Contains(text, \"0 of 2: 0 replayed\") and strings.Contains(text, \"disabled\")", state, text)
	}
	if n := recordsIn(eng); n != 2 {
		t.Errorf("%d records are left, want 2", n)
	}
}

// The oldest records are taken from all sinks together. A sink whose name comes first has no precedence.
func TestQuarantineBulkTakesTheOldestOfAllSinks(t *testing.T) {
	c, eng, _ := newShop(t, console.Options{})
	ingest(t, eng, mapping.JSON([]byte(`{"id":1}`))) // web/visits rejects it
	visits := first(t, c)
	if visits.Sink != "web/visits" {
		t.Fatalf("got %+v, want visits.Sink == \"web/visits\"", visits)
	}
	later := time.Now().Truncate(time.Millisecond).Add(time.Millisecond)
	eventually(t, "another millisecond", func() bool { return !time.Now().Before(later) })
	ingest(t, eng, mapping.JSON([]byte(`{"page":"p"}`)), mapping.JSON([]byte(`{"page":"q"}`))) // web/orders rejects them
	begun := answer[started](t, send(t, c, "/x/quarantine.discardall", operator, map[string]any{"count": 2}), 200)
	if state, progress := taskOf(t, c, begun.Task); state != "done" || begun.Count != 2 {
		t.Fatalf("got %+v: %s, %s, want state == \"done\" and begun.Count == 2", begun, state, progress)
	}
	if left := first(t, c); left.Sink != "web/orders" || left.Body.Text != `{"page":"q"}` || recordsIn(eng) != 1 {
		t.Errorf("%d records are left, the first is %+v", recordsIn(eng), left)
	}
}
