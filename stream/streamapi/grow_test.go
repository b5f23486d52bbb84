package streamapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

const (
	growTable = "in.c-web.a"
	growSink  = b + "/sources/web/sinks/a"
)

// growColumns are typed path columns, each given as name and type.
func growColumns(given ...string) string {
	var list []string
	for i := 0; i < len(given); i += 2 {
		list = append(list, fmt.Sprintf(`{"type":"path","name":%q,"path":%q,"dataType":%q}`, given[i], given[i], given[i+1]))
	}
	return `"mapping":{"columns":[` + strings.Join(list, ",") + `]}`
}

// createGrowing makes a source with one sink. table is the rest of the members of its table.
func (s *service) createGrowing(table string) response {
	s.t.Helper()
	return s.task("POST", b+"/sources", `{"type":"http","name":"Web","sinks":[{"type":"table","name":"A","table":{"type":"`+DefaultTableType+
		`","tableId":"`+growTable+`",`+table+`}}]}`)
}

// grown returns the columns in the statistics.
func (s *service) grown() string {
	s.t.Helper()
	var total totalBody
	if err := json.Unmarshal([]byte(s.get(growSink+"/statistics/total").text), &total); err != nil {
		s.t.Fatal(err)
	}
	if total.Table == nil {
		return "none"
	}
	names := func(list []tableColumn) (names []string) {
		for _, c := range list {
			names = append(names, c.Name+" "+c.DataType)
		}
		return names
	}
	text := fmt.Sprintf("%d %s", total.Table.Version, names(total.Table.Columns))
	if len(total.Table.Retired) > 0 {
		text += fmt.Sprintf(" without %s", names(total.Table.Retired))
	}
	return text
}

// tableRows returns the rows of the table in order, with NULL, after everything was imported.
func (s *service) tableRows(tables *dir.TableDir) string {
	s.t.Helper()
	if err := s.eng.FlushAll(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	var rows []string
	for row, err := range tables.Cells(growTable) {
		if err != nil {
			s.t.Fatal(err)
		}
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = string(cell); cell == nil {
				cells[i] = "NULL"
			}
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	slices.Sort(rows)
	return strings.Join(rows, "\n")
}

// TestTableGrows adds columns, leaves them out, rolls back to them and has them refused, through the Stream API and a restart.
func TestTableGrows(t *testing.T) {
	tables := dir.Tables(filepath.Join(t.TempDir(), "tables"))
	s := newService(t, serviceOptions{engine: forebay.Options{Target: tables}})
	if a := s.createGrowing(`"extend":true,` + growColumns("id", "int64", "n", "int64")); a.body["status"] != "success" {
		t.Fatal(a.text)
	}
	sent := 0
	send := func(want string) {
		t.Helper()
		sent++
		url := s.get(b + "/sources/web").at("http.url").(string)
		if status := s.send(url, fmt.Sprintf(`{"id":%d,"n":5,"note":"x"}`, sent)); status != 200 {
			t.Errorf("event %d: status %d", sent, status)
		}
		if got := s.grown(); got != want {
			t.Errorf("after event %d the statistics say %s, want %s", sent, got, want)
		}
	}
	send("1 [id int64 n int64]")
	s.done("PATCH", growSink, `{"table":{`+growColumns("id", "int64", "n", "int64", "note", "string")+`}}`)
	send("2 [id int64 n int64 note string]")

	// A change that the table cannot follow is refused at once, and changes nothing.
	a := s.want(400, "stream.api.badRequest", testToken, "PATCH", growSink, `{"table":{`+growColumns("id", "int64", "n", "float64")+`}}`)
	const sentence = `column \"n\" cannot be float64: table \"in.c-web.a\" keeps it as int64 from version 2 of its columns; use another name.`
	if !strings.Contains(a.text, sentence) {
		t.Errorf("got %s, want %s", a.text, sentence)
	}
	if sink := s.get(growSink); sink.at("version.number") != 2.0 || sink.at("table.mapping.columns.1.dataType") != "int64" || sink.at("table.extend") != true {
		t.Errorf("the sink is %s", sink.text)
	}

	// A rollback leaves the column out, and the next one continues with it.
	s.done("PUT", growSink+"/versions/1/rollback", "")
	send("3 [id int64 n int64] without [note string]")
	if a := s.want(400, "stream.api.badRequest", testToken, "PATCH", growSink, `{"table":{`+growColumns("id", "int64", "note", "int64")+`}}`); !strings.Contains(a.text, "keeps it as string from version 2") {
		t.Error(a.text)
	}
	s.done("PUT", growSink+"/versions/2/rollback", "")
	send("4 [id int64 n int64 note string]")
	const rows = "1 5 NULL\n2 5 x\n3 5 NULL\n4 5 x"
	if got := s.tableRows(tables); got != rows {
		t.Errorf("rows\n%s, want\n%s", got, rows)
	}

	// Another program gives the table a column. While the sink is disabled, its definition gets that column with another type.
	// The sink continues without the column, even after a restart, until the definition is right.
	s.done("PUT", growSink+"/disable", "")
	must(t, tables.Extend(t.Context(), driver.Table{ID: growTable, Columns: []datatype.Column{{Name: "z", Type: datatype.Bool}}}))
	s.done("PATCH", growSink, `{"table":{`+growColumns("id", "int64", "z", "int64")+`}}`)
	a = s.done("PUT", growSink+"/enable", "")
	if result, _ := a.at("result").(string); !strings.Contains(result, `Sink "a" continues with its earlier columns`) || !strings.Contains(a.text, `\"z\" is int64 in the mapping and bool in the table`) {
		t.Error(a.text)
	}
	for range 2 {
		send("4 [id int64 n int64 note string]")
		if refused, _ := s.get(growSink + "/statistics/total").at("table.refused").(string); !strings.Contains(refused, `"z" is int64`) {
			t.Errorf("the statistics say %q", refused)
		}
		test := s.post(s.server.URL+b+"/sources/web/test", `{"id":1,"z":2}`, http.Header{tokenHeader: {testToken}, "Content-Type": {"application/json"}})
		if refused, _ := test.at("tables.0.refused").(string); !strings.Contains(refused, `"z" is int64`) || test.at("tables.0.rows.0.columns.1.value") != "2" {
			t.Errorf("the test of a payload says %s", test.text)
		}
		s.stop()
		s.start()
	}
	s.done("PATCH", growSink, `{"table":{`+growColumns("id", "int64", "z", "bool")+`}}`)
	if refused := s.get(growSink + "/statistics/total").at("table.refused"); refused != nil {
		t.Errorf("after the correction the statistics say %v", refused)
	}
	const later = "1 5 NULL NULL\n2 5 x NULL\n3 5 NULL NULL\n4 5 x NULL\n5 5 x NULL\n6 5 x NULL"
	if got := s.tableRows(tables); got != later {
		t.Errorf("rows\n%s, want\n%s", got, later)
	}
}

// TestTableIsFrozen checks that by default a table has the columns of its sink, old clients see no new member, and a refusal says what would
// help. Without a target that adds columns it says that.
func TestTableIsFrozen(t *testing.T) {
	s := newService(t, serviceOptions{})
	if a := s.createGrowing(growColumns("id", "int64", "n", "int64")); a.body["status"] != "success" {
		t.Fatal(a.text)
	}
	if sink := s.get(growSink).text; strings.Contains(sink, "extend") || s.grown() != "none" {
		t.Errorf("got %s, statistics %s, want no extend and \"none\"", sink, s.grown())
	}
	more := `{"table":{%s` + growColumns("id", "int64", "n", "int64", "note", "string") + `}}`
	a := s.task("PATCH", growSink, fmt.Sprintf(more, ""))
	if a.at("errorName") != "stream.api.badRequest" || a.at("errorStatusCode") != 400.0 || !strings.Contains(a.text, `or set extend so that the table accepts them`) {
		t.Error(a.text)
	}
	s.done("PATCH", growSink, fmt.Sprintf(more, `"extend":true,`))
	if sink := s.get(growSink); sink.at("table.extend") != true || sink.at("version.number") != 2.0 {
		t.Error(sink.text)
	}
	s.done("PATCH", growSink, `{"table":{"extend":false}}`)
	if text := s.get(growSink).text; strings.Contains(text, "extend") {
		t.Error(text)
	}

	fixed := newService(t, serviceOptions{engine: forebay.Options{Target: struct{ driver.Target }{dir.Tables(t.TempDir())}}})
	a = fixed.want(400, "stream.api.badRequest", testToken, "POST", b+"/sources", `{"type":"http","name":"Web","sinks":[{"type":"table","name":"A","table":{"type":"`+
		DefaultTableType+`","tableId":"`+growTable+`","extend":true,`+growColumns("id", "int64", "n", "int64")+`}}]}`)
	if !strings.Contains(a.text, "the target cannot add columns to its tables: define the sink without Extend") {
		t.Error(a.text)
	}
}
