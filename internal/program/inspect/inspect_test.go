package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

func inspect(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Run(context.Background(), args, &out, &out, Options{}); err != nil {
		t.Fatalf("got %q: %v\n%s\nwant no error", args, err, &out)
	}
	return out.String()
}

func TestInspect(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	err = eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "events", Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{mapping.Path("kind", "kind", mapping.RawString())}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"login", "logout"} {
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"kind":"`+kind+`"}`))); err != nil {
			t.Fatal(err)
		}
	}
	var inUse *buffer.InUseError
	if err := Run(t.Context(), []string{data}, new(bytes.Buffer), new(bytes.Buffer), Options{}); !errors.As(err, &inUse) {
		t.Fatalf("a directory in use: %v", err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := eng.Checkpoint(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	text := inspect(t, "-verify", copied)
	for _, want := range []string{"web/events", "copied", "holds", "uploading"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	var p picture
	if err := json.Unmarshal([]byte(inspect(t, "-json", copied)), &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Sinks) != 1 || p.Sinks[0].Local.Rows != 2 || len(p.Slices) != 1 {
		t.Fatalf("picture is %+v", p)
	}
	if rows := inspect(t, "-rows", p.Slices[0].ID, copied); rows != "\"kind\"\n\"login\"\n\"logout\"\n" {
		t.Errorf("rows are %q", rows)
	}
}

// TestInspectColumns shows the columns of a sink and its waiting files while its table grows, and a refused change.
func TestInspectColumns(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, n := mapping.UUID("id", mapping.DataType(datatype.UUID)), mapping.Path("n", "n", mapping.DataType(datatype.Int64))
	for _, columns := range []mapping.Columns{
		{id, n, mapping.Path("raw", "raw", mapping.Default(nil))},
		{id, n},
		{id, mapping.Path("n", "n", mapping.DataType(datatype.Float64))},
	} {
		if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
			ID: "events", Table: forebay.Table{ID: "in.c-web.events", Columns: columns, Extend: true},
		}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"n":1}`))); err != nil {
			t.Fatal(err)
		}
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(inspect(t, data)), " ")
	for _, want := range []string{
		`web/events in.c-web.events 2 id uuid required, n int64 raw sink "web/events": column "n" cannot be float64: table "in.c-web.events" keeps it as int64 from version 2 of its columns; use another name`,
		"in.c-web.events: id uuid required, n int64, raw",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	var p picture
	if err := json.Unmarshal([]byte(inspect(t, "-json", data)), &p); err != nil {
		t.Fatal(err)
	}
	s := p.Sinks[0]
	if s.Table.Columns[1].Type != datatype.Int64 || !s.Table.Columns[0].Required || s.Version != 2 || len(s.Retired) != 1 || s.Refused == "" || len(s.Files[0].Table.Columns) != 3 {
		t.Errorf("picture is %+v", s)
	}
}

func TestInspectQuarantine(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sink := forebay.Sink{
		ID: "events", Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{mapping.Path("kind", "kind", mapping.RawString())}},
	}
	kept := sink
	kept.ID, kept.Table.ID, kept.OnReject = "kept", "in.c-web.kept", forebay.Quarantine
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{sink, kept}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if res, _ := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"sort":1}`))); res.Sinks[1].Status != forebay.Quarantined {
			t.Fatalf("got %+v, want res.Sinks[1].Status == %v", res, forebay.Quarantined)
		}
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	text := inspect(t, "-verify", data)
	if !strings.Contains(text, "QUARANTINED") || !strings.Contains(text, "holds") {
		t.Errorf("the quarantine is not in\n%s", text)
	}
	lines := strings.Split(text[strings.Index(text, "QUARANTINED"):], "\n")
	if fields := strings.Fields(lines[1]); fields[0] != "web/kept" || fields[1] != "3" || lines[2] != "" {
		t.Errorf("the table of quarantines is %q", lines[:3])
	}
}
