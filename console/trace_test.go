package console_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/spantest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/requestid"
)

type tracedStep struct {
	Name string
	At   *int64
	Text []any
}

type traced struct {
	Request *struct {
		Text  []any
		Sinks []struct {
			Sink  string
			Steps []tracedStep
		}
	}
	Calls []struct {
		Sink        string
		Quarantined bool
		Steps       []tracedStep
	}
	Rows []struct {
		Sink    string
		Columns []string
		Cells   []struct {
			T   *string
			Cut bool
		}
		Steps []tracedStep
	}
	MoreCalls      bool
	Searched, Kept []any
}

// words are steps as text, with @ for a time.
func words(steps []tracedStep) string {
	var lines []string
	for _, s := range steps {
		line := s.Name
		if s.At != nil {
			line += " @"
		}
		lines = append(lines, line+": "+plain(s.Text))
	}
	return strings.Join(lines, "\n")
}

func plain(parts []any) string {
	var b strings.Builder
	for _, p := range parts {
		if text, ok := p.(string); ok {
			b.WriteString(text)
		} else {
			b.WriteString("@")
		}
	}
	return b.String()
}

// newTrace has the source web with a secret and a sink whose imports fail while held is set.
func newTrace(t *testing.T, change ...func(*forebay.Options)) (eng *forebay.Engine, target *buffertest.Memory, held *atomic.Bool) {
	t.Helper()
	target, held = buffertest.NewMemory(), new(atomic.Bool)
	target.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport && held.Load() {
			return driver.Permanent(errors.New("columns differ"))
		}
		return nil
	}
	opts := forebay.Options{Staging: target, Target: target}
	for _, f := range change {
		f(&opts)
	}
	eng, err := forebay.Open(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Secret: strings.Repeat("s", 48), Sinks: []forebay.Sink{{
		ID: "events", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "web.events", Columns: mapping.Columns{
			mapping.Path("n", "n"), mapping.Path("note", "note"), mapping.Path("card", "card", mapping.Default(""), mapping.Secret()),
		}},
	}}}); err != nil {
		t.Fatal(err)
	}
	return eng, target, held
}

func find(t *testing.T, c *console.Console, source, text string) traced {
	t.Helper()
	return answer[traced](t, send(t, c, "/trace.find", readsRecords, obj{"source": source, "text": text}), 200)
}

// A request is followed by its Idempotency-Key from the local disk to the table, as it moves.
func TestTraceOfARequest(t *testing.T) {
	eng, _, held := newTrace(t)
	held.Store(true)
	c := consoleOf(t, eng, console.Options{})
	console.SetTraceTime(c, time.Minute)
	key, err := callkey.Event([]string{"order-7"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the repetition stores nothing
		if _, err := eng.IngestOnce(t.Context(), "web", forebay.Once{Key: key}, []*mapping.Record{mapping.JSON([]byte(`{"n":1,"note":"x"}`))}); err != nil {
			t.Fatal(err)
		}
	}
	slice, file := eng.Sink("web", "events").Slices()[0].ID, eng.Sink("web", "events").Slices()[0].FileID
	expect := func(want string) {
		t.Helper()
		for _, source := range []string{"", "web"} {
			got := find(t, c, source, " order-7 ")
			if len(got.Calls) != 1 || got.Calls[0].Sink != "web/events" || got.Calls[0].Quarantined || words(got.Calls[0].Steps) != want {
				t.Errorf("calls %+v, want\n%s", got.Calls, want)
			}
		}
	}
	got := words(find(t, c, "web", "order-7").Calls[0].Steps)
	if want := "Accepted @: 1 row.\nSlice @: " + slice + ", 1 row. It accepts rows, on the local disk.\nFile @: " + file + ", 1 row.\n" +
		"Table: Not in the table web.events yet. Next upload in "; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want\n%s", got, want)
	}
	if err := eng.Flush(t.Context(), "web"); err == nil {
		t.Fatal("imported")
	}
	got = words(find(t, c, "web", "order-7").Calls[0].Steps)
	if want := "Accepted @: 1 row.\nSlice @: " + slice + ", 1 row. In staging.\nFile @: " + file + ", 1 row. Closed at @ because of: requested.\n" +
		"Table: Not in the table web.events yet. Import fails: "; !strings.HasPrefix(got, want) || !strings.Contains(got, ". Since @, ") || !strings.Contains(got, " 1 row in 1 file waits.") {
		t.Errorf("got %s, want\n%s", got, want)
	}
	held.Store(false)
	if err := eng.Sink("web", "events").Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	wait(t, "the slice is deleted", func() bool { return len(eng.Sink("web", "events").Slices()) == 0 })
	expect("Accepted @: 1 row.\nFile @: " + file + ", 1 row. Closed at @ because of: requested.\nTable @: In the table web.events.")

	// The file leaves the list when enough others have ended.
	for i := 0; ; i++ {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"n":2,"note":"y"}`))); err != nil {
			t.Fatal(err)
		}
		if err := eng.Flush(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		if files := eng.Stats().Sinks[0].Files; files[0].ID != file {
			if i < 29 {
				t.Errorf("only %d files are known after the first, the page says 30", i)
			}
			break
		}
	}
	expect("Accepted @: 1 row.\nTable: In the table: their file is no longer listed, and this sink has never given up a row.")
	if got := find(t, c, "", "order-8"); len(got.Calls) > 0 || len(got.Rows) > 0 || plain(got.Kept) == "" {
		t.Errorf("of another key: %+v", got)
	}
}

// The id of a request leads to where the rows of its time are, and to nothing at another time.
func TestTraceOfARequestID(t *testing.T) {
	eng, _, held := newTrace(t)
	held.Store(true)
	c := consoleOf(t, eng, console.Options{})
	console.SetTraceTime(c, time.Minute)
	id := requestid.New(time.Now()) // as the handler of events makes one; console/browsertest has it
	if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"n":1,"note":"x"}`))); err != nil {
		t.Fatal(err)
	}
	got := find(t, c, "web", id).Request
	file := eng.Stats().Sinks[0].Files[0].ID
	if got == nil || len(got.Sinks) != 1 || got.Sinks[0].Sink != "web/events" || !strings.Contains(words(got.Sinks[0].Steps), "\nFile @: "+file+", 1 row.") ||
		plain(got.Text) != "A request with this id came at @. If it got 200, its rows are among the rows that these sinks accepted in the second after it." {
		t.Errorf("got %+v, want the request with the second in which it came, and its sinks", got)
	}
	for what, at := range map[string]time.Time{"an earlier request": time.Now().Add(-time.Hour), "a later one": time.Now().Add(30 * time.Second)} {
		if got := find(t, c, "", requestid.New(at)).Request; got == nil || len(got.Sinks) > 0 || !strings.HasSuffix(plain(got.Text), "No file that is still listed took rows in the second after it.") {
			t.Errorf("%s: got %+v, want a request without sinks", what, got)
		}
	}
	for what, text := range map[string]string{"a time to come": requestid.New(time.Now().Add(time.Hour)), "long ago": requestid.New(time.Now().AddDate(-2, 0, 0)), "no id": "order-7"} {
		if got := find(t, c, "", text).Request; got != nil {
			t.Errorf("%s: got %+v, want nil", what, got)
		}
	}
}

// wait waits for a condition.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("it does not become true that %s", what)
		}
	}
}

// Keys of a program are found too, and a call whose records went to the quarantine leads there.
func TestTraceOfACallOfTheProgram(t *testing.T) {
	eng, _, _ := newTrace(t)
	c := consoleOf(t, eng, console.Options{})
	console.SetTraceTime(c, time.Minute)
	recs := []*mapping.Record{mapping.JSON([]byte(`{"n":1}`)), mapping.JSON([]byte(`{"n":2,"note":"x"}`)), mapping.JSON([]byte(`{"n":3}`))}
	if _, err := eng.IngestOnce(t.Context(), "web", forebay.Once{Key: "mixed"}, recs); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.IngestOnce(t.Context(), "web", forebay.Once{Key: "bad"}, recs[:1]); err != nil {
		t.Fatal(err)
	}
	if got := find(t, c, "", "mixed").Calls; len(got) != 1 || !got[0].Quarantined || !strings.HasPrefix(words(got[0].Steps), "Accepted @: 1 row, and 2 records for the quarantine.\nSlice @") {
		t.Errorf("got %+v, want one call with its quarantined records", got)
	}
	if got := find(t, c, "", "bad").Calls; len(got) != 1 || !got[0].Quarantined || words(got[0].Steps) != "Accepted @: 0 rows, and 1 record for the quarantine." {
		t.Errorf("got %+v, want len(got) == 1 and got[0].Quarantined and words(got[0].Steps) == \"Accepted @: 0 rows, and 1 record for the quarantine.\"", got)
	}
	if err := eng.Sink("web", "events").Discard(t.Context(), eng.Sink("web", "events").Slices()[0].FileID); err != nil {
		t.Fatal(err)
	}
	if got := find(t, c, "", "mixed").Calls; len(got) != 1 || !strings.HasSuffix(words(got[0].Steps), "Given up @: The file was discarded.") {
		t.Errorf("got %+v, want one call that ends with the discarded file", got)
	}
}

// The sampled calls of a trace are found by its id, in any case, with the places of their rows. A call that is found by its key has the id of its trace.
func TestTraceOfATrace(t *testing.T) {
	tracer := new(spantest.Tracer)
	eng, _, _ := newTrace(t, func(o *forebay.Options) { o.Tracer = tracer })
	c := consoleOf(t, eng, console.Options{})
	console.SetTraceTime(c, time.Minute)
	ctx, caller := tracer.Start(t.Context(), "caller")
	id := caller.SpanContext().TraceID().String()
	rec := []*mapping.Record{mapping.JSON([]byte(`{"n":1,"note":"x"}`))}
	if _, err := eng.IngestOnce(ctx, "web", forebay.Once{Key: "order"}, rec); err != nil {
		t.Fatal(err)
	}
	span := tracer.Named("forebay.ingest")[0].Context.SpanID().String()
	if got := find(t, c, "", "order").Calls; len(got) != 1 || !strings.HasPrefix(words(got[0].Steps), "Accepted @: 1 row. Trace "+id+".\nSlice @") {
		t.Errorf("got %+v, want one call with its trace %s", got, id)
	}
	for _, text := range []string{id, strings.ToUpper(id)} {
		if got := find(t, c, "web", text).Calls; len(got) != 1 || got[0].Sink != "web/events" || !strings.HasPrefix(words(got[0].Steps), "Accepted @: Span "+span+" of the trace.\nSlice @") {
			t.Errorf("got %+v, want one call of web/events with its span %s", got, span)
		}
	}
	if got := find(t, c, "", strings.Repeat("a", 32)).Calls; len(got) != 0 {
		t.Errorf("got %+v for an unknown trace, want none", got)
	}
	for range 30 {
		if _, err := eng.IngestBatch(ctx, "web", rec); err != nil {
			t.Fatal(err)
		}
	}
	if got := find(t, c, "", id); len(got.Calls) != 20 || !got.MoreCalls || !strings.Contains(plain(got.Kept), "the last 256 sampled calls of each sink") {
		t.Errorf("got %d calls, want 20; %s", len(got.Calls), plain(got.Kept))
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if got := find(t, c, "", id).Calls; len(got) != 20 || !strings.Contains(words(got[0].Steps), "In the table web.events.") {
		t.Errorf("got %+v, want len(got) == 20 and strings.Contains(words(got[0].Steps), \"In the table web.events.\")", got)
	}
}

// Rows that wait are found by a value, not by one that is secret, and their cells are shown as text.
func TestTraceOfAValue(t *testing.T) {
	eng, _, held := newTrace(t)
	held.Store(true)
	c := consoleOf(t, eng, console.Options{})
	console.SetTraceTime(c, time.Minute)
	ingest := func(format string, args ...any) {
		t.Helper()
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, format, args...))); err != nil {
			t.Fatal(err)
		}
	}
	ingest(`{"n":1,"note":"order 7 <img src=x> %s","card":"4111"}`, strings.Repeat("é", 300))
	if err := eng.Flush(t.Context(), "web"); err == nil {
		t.Fatal("imported")
	}
	ingest(`{"n":2,"note":"order 8"}`)
	for range 12 {
		ingest(`{"n":3,"note":"many"}`)
	}
	got := find(t, c, "web", "order 7")
	if len(got.Rows) != 1 || len(got.Calls) != 0 || plain(got.Searched) != "14 rows that wait were searched." {
		t.Fatalf("got %+v, want len(got.Rows) == 1 and len(got.Calls) == 0 and plain(got.Searched) == \"14 rows that wait were searched.\"", got)
	}
	r := got.Rows[0]
	if r.Sink != "web/events" || fmt.Sprint(r.Columns) != "[n note card]" || *r.Cells[0].T != "1" || !r.Cells[1].Cut || !strings.HasPrefix(*r.Cells[1].T, "\"order 7 <img src=x> éé") || *r.Cells[2].T != "***" {
		t.Errorf("got %+v, want the row with a cut text, and the secret as ***", r)
	}
	if w := words(r.Steps); !strings.Contains(w, "In staging.") || !strings.Contains(w, "columns differ") || !strings.HasPrefix(w, "Accepted @: Between this time and @") {
		t.Errorf("got %s, want strings.Contains(w, \"In staging.\") and strings.Contains(w, \"columns differ\") and strings.HasPrefix(w, \"Accepted @: Between this time and @\")", w)
	}
	if got := find(t, c, "", "order"); len(got.Rows) != 2 || *got.Rows[0].Cells[0].T != "2" {
		t.Errorf("in both places, the newest first: %+v", got.Rows)
	}
	if got := find(t, c, "", "many"); len(got.Rows) != 10 || !strings.HasPrefix(plain(got.Searched), "There are more rows") {
		t.Errorf("got %d rows, %s, want 10 and that there are more", len(got.Rows), plain(got.Searched))
	}
	if got := find(t, c, "", "4111"); len(got.Rows) != 0 {
		t.Errorf("a secret value is found: %+v", got.Rows)
	}
	console.SetTraceTime(c, time.Nanosecond)
	w := send(t, c, "/trace.find", readsRecords, obj{"source": "web", "text": "order"})
	if late := answer[traced](t, w, 200); len(late.Rows) != 0 || !strings.HasPrefix(plain(late.Searched), "The search has ended after 1 s: 0 rows of 1 of 2 slices") {
		t.Errorf("without time: %s", w.Body)
	}
}

func TestTraceIsRefused(t *testing.T) {
	eng, _, _ := newTrace(t)
	c := consoleOf(t, eng, console.Options{Public: console.Numbers})
	console.SetTraceTime(c, time.Minute)
	asked := obj{"source": "web", "text": "k"}
	for _, tc := range []struct {
		name, target, token string
		body                any
		headers             []string
		status              int
	}{
		{"no token", "/trace.find", "", asked, nil, 401},
		{"no right to records", "/trace.find", reader, asked, nil, 403},
		{"the list of sources without the right", "/trace.sources", reader, nil, nil, 403},
		{"the list of sources", "/trace.sources", readsRecords, nil, nil, 200},
		{"another origin", "/trace.find", readsRecords, asked, []string{"Origin", "https://evil.example"}, 403},
		{"GET", "/trace.find", readsRecords, nil, nil, 405},
		{"nothing to find", "/trace.find", readsRecords, obj{"source": "web", "text": " "}, nil, 400},
		{"too much to find", "/trace.find", readsRecords, obj{"source": "web", "text": strings.Repeat("k", 1025)}, nil, 400},
		{"no source", "/trace.find", readsRecords, obj{"source": "other\u202e", "text": "k"}, nil, 404},
		{"a key", "/trace.find", readsRecords, asked, nil, 200},
	} {
		if w := send(t, c, tc.target, tc.token, tc.body, tc.headers...); w.Code != tc.status || strings.Contains(w.Body.String(), "\u202e") {
			t.Errorf("%s: status %d, want %d: %s", tc.name, w.Code, tc.status, w.Body)
		}
	}
	free := console.TakeTraceSlots(c)
	if w := send(t, c, "/trace.find", readsRecords, asked); w.Code != 503 {
		t.Errorf("with all places taken: status %d", w.Code)
	}
	free()
	if w := send(t, c, "/trace.find", readsRecords, asked); w.Code != 200 {
		t.Errorf("with places free again: status %d", w.Code)
	}
}

// Two files that took rows in the same millisecond are both shown, each with its own slice.
func TestTraceOfTwoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, _, held := newTrace(t)
		held.Store(true)
		c := consoleOf(t, eng, console.Options{})
		at := time.Now()
		for _, key := range []string{"a", "b"} {
			if _, err := eng.IngestOnce(t.Context(), "web", forebay.Once{Key: key}, []*mapping.Record{mapping.JSON([]byte(`{"n":1,"note":"x"}`))}); err != nil {
				t.Fatal(err)
			}
			if key == "a" {
				if err := eng.Flush(t.Context(), "web"); err == nil {
					t.Fatal("imported")
				}
			}
		}
		all := eng.Sink("web", "events").Slices()
		if len(all) != 2 || !all[0].Level.FirstAt.Equal(at) || !all[1].Level.FirstAt.Equal(at) {
			t.Fatalf("slices %+v, want two of %s", all, at)
		}
		calls := find(t, c, "", "b").Calls
		if len(calls) != 1 {
			t.Fatalf("got %+v, want len(calls) == 1", calls)
		}
		var names []string
		for _, s := range calls[0].Steps {
			names = append(names, s.Name)
		}
		w := words(calls[0].Steps)
		if got, want := strings.Join(names, ", "), "Accepted, Either (1 of 2), Slice, File, Table, Either (2 of 2), Slice, File, Table"; got != want {
			t.Errorf("steps %s, want %s", got, want)
		}
		if first, second := strings.Index(w, all[0].ID), strings.Index(w, all[1].ID); first < 0 || second < strings.Index(w, "Either (2") || first > second {
			t.Errorf("got %s, want first >= 0 and second >= strings.Index(w, \"Either (2\") and first <= %v", w, second)
		}
	})
}
