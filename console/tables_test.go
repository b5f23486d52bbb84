package console_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

type shownTable struct {
	Table, Language, Query, Note string
	Columns                      [][2]string
	Rows                         [][]struct {
		T   *string
		Cut bool
	}
	Imported        *int64
	Stored, Waiting any
}

func TestTablesShowTheLastRows(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{
		mapping.Path("n", "n", mapping.DataType(datatype.Int64), mapping.Required()),
		mapping.Path("note", "note", mapping.DataType(datatype.String)),
		mapping.Path("card", "card", mapping.DataType(datatype.String), mapping.Secret()),
	}}})
	c := consoleOf(t, eng, console.Options{})
	console.SetTailTime(c, time.Minute)
	open := func() shownTable {
		t.Helper()
		return answer[shownTable](t, send(t, c, "/tables.open?source=web&sink=events", readsRecords, nil), 200)
	}
	if got := open(); len(got.Rows) != 0 || got.Note == "" || !strings.Contains(got.Query, "read_csv('") || got.Language != "DuckDB" || got.Table != "web.events" {
		t.Errorf("before the first row: %+v", got)
	}
	for i := range 30 {
		body := fmt.Sprintf(`{"n":%d,"note":"","card":"4111"}`, i)
		switch i {
		case 28:
			body = "{\"n\":28,\"note\":\"\u202e<img src=x onerror=alert(1)>" + strings.Repeat("é", 2000) + "\",\"card\":null}"
		case 29:
			body = `{"n":29}`
		}
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := eng.Flush(t.Context(), "web"); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := send(t, c, "/tables.open?source=web&sink=events", readsRecords, nil)
	got := answer[shownTable](t, w, 200)
	if len(got.Rows) != 20 || *got.Rows[0][0].T != "10" || *got.Rows[19][0].T != "29" || got.Imported == nil || got.Note != "" {
		t.Fatalf("got %d rows, note %q: %s, want 20 from 10 to 29 with a time, no note", len(got.Rows), got.Note, w.Body)
	}
	if last := got.Rows[19]; last[1].T != nil || last[2].T != nil || *got.Rows[0][1].T != "" {
		t.Errorf("NULL and the empty text: %s", w.Body)
	}
	if note := got.Rows[18][1]; !note.Cut || len(*note.T) > 2<<10 || !strings.HasPrefix(*note.T, "\u202e<img src=x") || strings.HasSuffix(*note.T, "\uFFFD") {
		t.Errorf("a long cell: cut %v, %.80q", note.Cut, *note.T)
	}
	if strings.Contains(w.Body.String(), "4111") || *got.Rows[0][2].T != "***" || got.Rows[18][2].T != nil {
		t.Errorf("a secret column: %s", w.Body)
	}
	if got.Columns[0] != [2]string{"n", "int64"} {
		t.Errorf("columns %v", got.Columns)
	}
	giveBack := console.TakeTailSlots(c)
	if w := send(t, c, "/tables.open?source=web&sink=events", readsRecords, nil); w.Code != 503 || !strings.Contains(w.Body.String(), "2 tables are being read already") {
		t.Errorf("a third table at once: status %d: %s", w.Code, w.Body)
	}
	giveBack()
	console.SetTailTime(c, -1)
	if got := open(); !strings.Contains(got.Note, "not returned the rows within 2s. It may be away, or the rows are too large") || len(got.Rows) > 0 || got.Query == "" {
		t.Errorf("past the time limit: %+v", got)
	}
}

func TestTablesRights(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: threeTokens, Public: console.Numbers})
	for _, name := range []string{"tables.list", "tables.open?source=web&sink=events"} {
		for token, status := range map[string]int{"": 401, reader: 403, readsRecords: 200} {
			if w := send(t, c, "/"+name, token, nil); w.Code != status {
				t.Errorf("%s with token %q: status %d, want %d", name, token, w.Code, status)
			}
		}
		if w := send(t, c, "/"+name, readsRecords, nil, "Sec-Fetch-Site", "same-site"); w.Code != 403 {
			t.Errorf("%s from another origin: status %d, want 403", name, w.Code)
		}
		if w := send(t, c, "/"+name, readsRecords, obj{}); w.Code != 405 {
			t.Errorf("POST %s: status %d", name, w.Code)
		}
	}
	if w := send(t, c, "/tables.open?source=web&sink=..%2F..%2Fetc", readsRecords, nil); w.Code != 404 {
		t.Errorf("a sink that is a path: status %d: %s", w.Code, w.Body)
	}
}

// A target that shows nothing is said to do so.
func TestTablesOfOtherTargets(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: buffertest.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Body("b")}}}}}); err != nil {
		t.Fatal(err)
	}
	c := consoleOf(t, eng, console.Options{})
	if got := answer[shownTable](t, send(t, c, "/tables.open?source=web&sink=events", readsRecords, nil), 200); got.Note != "This target shows no rows here. Read the table with a client of the target." || got.Query != "" || len(got.Rows) > 0 {
		t.Errorf("got %+v, want no rows and a note that says where to read the table", got)
	}
}

// away is a target whose rows cannot be read.
type away struct{ *dir.TableDir }

func (away) Tail(context.Context, string, int) (driver.Tail, error) {
	return driver.Tail{}, errors.New("dial tcp 10.0.0.7:5432: connection refused.")
}

// While a target is away, the page still has the counts and the query, and names the problem before the next step.
func TestTablesOfATargetThatIsAway(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: away{dir.Tables(t.TempDir())}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Body("b")}}}}}); err != nil {
		t.Fatal(err)
	}
	got := answer[shownTable](t, send(t, consoleOf(t, eng, console.Options{}), "/tables.open?source=web&sink=events", readsRecords, nil), 200)
	want := "The rows cannot be read: dial tcp 10.0.0.7:5432: connection refused. Waiting rows are safe. Refresh when the target is back, or use the query."
	if got.Note != want || got.Query == "" || got.Table != "t" {
		t.Errorf("got %+v, want the note %q, the table and a query", got, want)
	}
}
