package forebay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// A row that the target refuses is listed with the target's words, edited cell by cell, and replayed once, even with other columns.
func TestRefusedRowIsEditedAndReplayed(t *testing.T) {
	e, mem := openMemory(t)
	var accepts atomic.Bool
	mem.Refuse = func(table string, row []string) driver.RowError {
		if !accepts.Load() && table == "in.c-web.rows" && len(row[1]) > 3 {
			return driver.RowError{Column: "n", Reason: "22003", Message: "out of range"}
		}
		return driver.RowError{}
	}
	column := func(typ datatype.Type) func(*forebay.Source) {
		return func(s *forebay.Source) {
			s.Sinks[0].Table.Columns = mapping.Columns{
				mapping.Path("id", "id", mapping.DataType(datatype.String), mapping.Required()), mapping.Path("n", "n", mapping.DataType(typ)),
				mapping.Path("raw", "raw", mapping.RawString(), mapping.Default("")), mapping.Path("doc", "doc", mapping.DataType(datatype.JSON)),
			}
			s.Sinks[0].Version = len(typ) // int64: 5, string: 6
			s.Sinks[0].Table.ID = "in.c-web.rows" + strings.TrimPrefix(string(typ), "int64")
		}
	}
	mustDefine(t, e, events(keeping, column(datatype.Int64)))
	for i, n := range []int{1, 5000, 2, 6000, 7000} {
		mustIngest(t, e, "web", mapping.JSON(fmt.Appendf(nil, `{"id":"%d <\"é\">","n":%d,"doc":{"a":[1]},"raw":"a,\"b\"\r\n"}`, i, n)))
	}
	must(t, e.Flush(t.Context(), "web"))
	q := e.Sink("web", "users").Quarantine()
	all := rejectedOf(t, e, forebay.RejectedFilter{Reason: "22003", Column: "n", Text: "RANGE"})
	if len(all) != 3 || all[0].Poison == nil || all[0].Poison.Row != 1 || all[2].Poison.Row != 4 || all[0].Message != "out of range" {
		t.Fatalf("got %+v, want 3 records, rows 1 to 4, out of range", all)
	}
	if name, err := q.Mapping(t.Context()); err != nil || all[0].Mapping != name || all[0].Version != 5 {
		t.Errorf("the row is of version %d, columns %q, the definition has %q, %v", all[0].Version, all[0].Mapping, name, err)
	}
	c, err := q.Get(t.Context(), all[0].ID)
	if want := `{"id":"1 <\"é\">","n":"5000","raw":"a,\"b\"\r\n","doc":"{\"a\":[1]}"}`; err != nil || string(c.Record.Body) != want || string(c.Came) != want {
		t.Fatalf("got %s, came as %s, %v, want %s for both, no error", c.Record.Body, c.Came, err, want)
	}
	for body, want := range map[string]string{
		`{"n":"x"}`: "n", `{"id":null}`: "no value", `{"other":"1"}`: "no column", `[]`: "JSON object", `{"raw":null}`: "no value", `{"doc":"{"}`: "JSON document", `null`: "JSON object",
	} {
		if _, err := q.TestBody(t.Context(), all[0].ID, []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the test of %s: %v, want %q", body, err, want)
		}
		if err := q.Edit(t.Context(), all[0].ID, 0, []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("edit with %s: %v, want %q", body, err, want)
		}
	}
	if cells, err := q.TestBody(t.Context(), all[0].ID, []byte(`{"n":"50"}`)); err != nil || !slices.ContainsFunc(cells, func(c mapping.Cell) bool { return c.Column == "n" && c.Value == "50" }) {
		t.Errorf("test of a body: %+v, %v", cells, err)
	}
	if c, err := q.Get(t.Context(), all[0].ID); err != nil || c.Edited || strings.Contains(string(c.Record.Body), `"50"`) {
		t.Errorf("after the test of a body: %+v, %v", c, err)
	}
	must(t, q.Edit(t.Context(), all[0].ID, 0, []byte(`{"n":"50","doc":null}`)))
	c, err = q.Get(t.Context(), all[0].ID)
	if err != nil || !strings.Contains(string(c.Record.Body), `"n":"50"`) || !strings.Contains(string(c.Came), "5000") || !c.Edited || c.Reason != "22003" {
		t.Errorf("after the edit %s, came as %s, %+v, %v", c.Record.Body, c.Came, c.RejectedRecord, err)
	}
	cells, err := q.Test(t.Context(), all[0].ID)
	if err != nil || len(cells) != 4 || cells[1].Value != "50" || !cells[3].Null || cells[2].Value != "a,\"b\"\r\n" {
		t.Errorf("test: %+v, %v", cells, err)
	}
	if res, err := q.Replay(t.Context(), all[0].ID, all[0].ID); err != nil || res != (forebay.ReplayResult{Replayed: 1, Gone: 1}) {
		t.Errorf("got %+v, %v, want no error and res == (forebay.ReplayResult{Replayed: 1, Gone: 1})", res, err)
	}
	// With other columns, what does not fit stays, with the reason of the mapping.
	mustDefine(t, e, events(keeping, column(datatype.Date)))
	if res, err := q.Replay(t.Context(), all[1].ID); err != nil || res.Rejected != 1 {
		t.Errorf("got %+v, %v, want no error and res.Rejected == 1", res, err)
	}
	if r := rejectedOf(t, e, forebay.RejectedFilter{After: all[0].ID})[0]; r.Reason != "malformed" || r.Column != "n" || r.Failed != 1 || r.Poison == nil {
		t.Errorf("after a replay that failed: %+v", r)
	}
	mustDefine(t, e, events(keeping, column(datatype.Int64)))
	accepts.Store(true)
	if res, err := q.ReplayAll(t.Context(), forebay.RejectedFilter{}); err != nil || res.Replayed != 2 {
		t.Errorf("got %+v, %v, want no error and res.Replayed == 2", res, err)
	}
	if err := e.Flush(t.Context(), "web"); err != nil {
		var held *buffer.HeldError
		t.Fatal(err, errors.As(err, &held))
	}
	var rows []string
	for _, row := range mem.Rows("in.c-web.rows") {
		rows = append(rows, row[0]+" "+row[1])
	}
	slices.Sort(rows)
	if want := []string{`0 <"é"> 1`, `1 <"é"> 50`, `2 <"é"> 2`, `3 <"é"> 6000`, `4 <"é"> 7000`}; !slices.Equal(rows, want) {
		t.Errorf("the table has %q, want %q", rows, want)
	}
	if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
	}
}

// A definition may change the case of a name. A table that grows treats both as one column. The row keeps its value then.
func TestRefusedRowMeetsANameInAnotherCase(t *testing.T) {
	e, mem := openMemory(t)
	var accepts atomic.Bool
	mem.Refuse = func(table string, _ []string) driver.RowError {
		if !accepts.Load() && table == "in.c-web.total" {
			return driver.RowError{Reason: "23514"}
		}
		return driver.RowError{}
	}
	named := func(name string) func(*forebay.Source) {
		return func(s *forebay.Source) {
			s.Sinks[0].Table.Columns = mapping.Columns{
				mapping.Path("id", "id", mapping.DataType(datatype.String), mapping.Required()), mapping.Path(name, "n", mapping.DataType(datatype.Int64)),
			}
			s.Sinks[0].Table.ID = "in.c-web." + name
		}
	}
	mustDefine(t, e, events(keeping, named("total")))
	mustIngest(t, e, "web", mapping.JSON([]byte(`{"id":"1","n":7}`)))
	must(t, e.Flush(t.Context(), "web"))
	accepts.Store(true)
	mustDefine(t, e, events(keeping, named("Total")))
	if res, err := e.Sink("web", "users").Quarantine().ReplayAll(t.Context(), forebay.RejectedFilter{}); err != nil || res.Replayed != 1 {
		t.Fatalf("got %+v, %v, want no error and res.Replayed == 1", res, err)
	}
	must(t, e.Flush(t.Context(), "web"))
	if got := mem.Rows("in.c-web.Total"); len(got) != 1 || got[0][1] != "7" {
		t.Errorf("the table has %q, want the value 7", got)
	}
}
