package mapping

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
)

// conversion is one row of the tables of docs/types.md.
type conversion struct {
	column Column
	limits Limits
	value  string // JSON; empty if it is missing
	cell   string
	null   bool
	reason string // of the rejection
}

var code = regexp.MustCompile("^`(.*)`$")

// options turns `name: value, name` into the members of an object.
func options(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for part := range strings.SplitSeq(text, ", ") {
		if part == "" {
			continue
		}
		name, value, found := strings.Cut(part, ": ")
		if !found {
			value = "true"
		}
		fmt.Fprintf(&b, ",%q:%s", name, value)
	}
	return b.String()
}

// conversions reads the tables of the page.
func conversions(t *testing.T) (list []conversion) {
	t.Helper()
	page, err := os.ReadFile("../docs/types.md")
	if err != nil {
		t.Fatal(err)
	}
	table := ""
	for line := range strings.Lines(string(page)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "| type | options | value |"), strings.HasPrefix(line, "| type | target | value |"):
			table = line
			continue
		case !strings.HasPrefix(line, "|"):
			table = ""
		}
		if table == "" || strings.HasPrefix(line, "|---") {
			continue
		}
		fields := strings.Split(strings.Trim(line, "|"), "|")
		if len(fields) != 4 {
			t.Fatalf("%s has %d columns", line, len(fields))
		}
		for i, f := range fields {
			fields[i] = strings.TrimSpace(f)
			if m := code.FindStringSubmatch(fields[i]); m != nil {
				fields[i] = m[1]
			}
		}
		c := conversion{value: strings.ReplaceAll(fields[2], "<ff>", "\xff")}
		column := `{"type":"path","name":"c","path":"v","dataType":"` + fields[0] + `"`
		if strings.Contains(table, "options") {
			column += options(t, fields[1])
		} else if err := json.Unmarshal([]byte("{"+strings.TrimPrefix(options(t, fields[1]), ",")+"}"), &c.limits); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := json.Unmarshal([]byte(column+"}"), &c.column); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if fields[2] == "*missing*" {
			c.value = ""
		}
		switch reason, refused := strings.CutPrefix(fields[3], "refused: "); {
		case refused:
			c.reason = strings.Trim(reason, "`")
		case fields[3] == "NULL":
			c.null = true
		case fields[3] != "*empty*":
			c.cell = fields[3]
		}
		list = append(list, c)
	}
	if len(list) < 250 {
		t.Fatalf("the page has %d conversions", len(list))
	}
	return list
}

// check holds the cell of one record against the table, and the row against the cell.
func (c conversion) check(t *testing.T, how string, col Column, r *Record) {
	t.Helper()
	m, err := Compile(Columns{UUID("id"), col}, Options{Limits: c.limits})
	if err != nil {
		t.Errorf("%s: %v", how, err)
		return
	}
	got := m.Cells(r)[1]
	switch fail, _ := got.Err.(*Error); {
	case got.Err != nil && (c.reason == "" || fail.Reason.String() != c.reason):
		t.Errorf("%s: %v, want %q null=%v %s", how, got.Err, c.cell, c.null, c.reason)
	case got.Err == nil && c.reason != "":
		t.Errorf("%s: %q null=%v, want %s", how, got.Value, got.Null, c.reason)
	case got.Err == nil && (got.Value != c.cell || got.Null != c.null):
		t.Errorf("%s: %q null=%v, want %q null=%v", how, got.Value, got.Null, c.cell, c.null)
	case got.Err != nil && (fail.Column != "c" || fail.Type != col.DataType || len(fail.Value) > maxQuoted):
		t.Errorf("%s: the error %+v lacks something", how, *fail)
	}
	row, err := m.AppendRow([]byte("x"), r)
	want := `,"` + strings.ReplaceAll(got.Value, `"`, `""`) + "\"\n"
	if got.Null {
		want = ",\n"
	}
	if err == nil && got.Err == nil && string(row[1+len(`"019aaaaa-0000-7000-8000-000000000000"`):]) != want || (err != nil) != (got.Err != nil) {
		t.Errorf("%s: the row %q %v, want %q", how, row, err, want)
	}
}

// TestConversions converts each value of docs/types.md in all ways that lead to a cell: from a body, from a document that gives
// single fields, through a template, and as a default.
func TestConversions(t *testing.T) {
	for _, c := range conversions(t) {
		body := `{"a":0,"v":` + c.value + `}`
		if c.value == "" {
			body = `{"a":0}`
		}
		how := fmt.Sprintf("%s %+v %s", c.column.DataType, c.column.TypeOptions, body)
		c.check(t, how, c.column, JSON([]byte(body)))
		decoded := strings.Contains(c.value, `\u`) // a document gives decoded texts, where halves of pairs cannot be
		other := strings.Contains(c.value, "\xff") // repaired before the cell is made
		if !decoded && !(other && c.column.DataType == datatype.JSON) {
			c.check(t, "document: "+how, c.column, &Record{Document: &jsonDocument{text: body}})
		}
		if !other && c.value != "" && c.column.Default == nil {
			col := c.column
			col.Type, col.Path, col.Template = TypeTemplate, "", TemplateSource{"jsonnet", `Body("v")`}
			c.check(t, "template: "+how, col, JSON([]byte(body)))
		}
		if c.value == "" || c.column.Default != nil || c.column.Required {
			continue
		}
		col := c.column
		col.Default = json.RawMessage(c.value)
		if c.reason == "" {
			c.check(t, "default: "+how, col, JSON([]byte(`{}`)))
		} else if _, err := Compile(Columns{UUID("id"), col}, Options{Limits: c.limits}); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("the default of %s: %v, want %s", how, err, c.reason)
		}
	}
}
