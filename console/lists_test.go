package console_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/requestid"
	"github.com/forebay/forebay/trigger"
)

// A cluster of any size has pages of nodes. The nodes that are not ready are on the first one, and the counts are of all.
func TestPagesOfNodes(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: threeTokens, Nodes: func(context.Context) (list []catalog.Node, err error) {
		for i := range 120 {
			list = append(list, catalog.Node{Name: fmt.Sprintf("node-%03d", i), Ready: i != 70 && i != 110})
		}
		return list, nil
	}})
	for from, want := range map[int]string{0: "node-070 node-110 node-000 … 50", 50: "node-048 node-049 node-050 … 50", 100: "node-099 node-100 node-101 … 20", 1000: "node-099 node-100 node-101 … 20"} {
		got := answer[nodesAnswer](t, send(t, c, "/health.nodes?from="+strconv.Itoa(from), operator, nil), 200)
		if got.Count != 120 || got.Away != 2 || got.From != min(from, 100) || len(got.Nodes) < 3 {
			t.Fatalf("from %d: %d nodes of %d, %d away, from %d", from, len(got.Nodes), got.Count, got.Away, got.From)
		}
		if shown := fmt.Sprint(got.Nodes[0].Name, " ", got.Nodes[1].Name, " ", got.Nodes[2].Name, " … ", len(got.Nodes)); shown != want {
			t.Errorf("from %d: %s, want %s", from, shown, want)
		}
	}
}

// All records of damage can be seen, a page at a time.
func TestPagesOfDamage(t *testing.T) {
	c := consoleOf(t, openDamaged(t, 130), console.Options{})
	seen := make(map[string]bool)
	for from := 0; from < 130; from += 50 {
		got := answer[struct {
			Records, From int
			Damage        []struct{ ID, Sink string }
		}](t, send(t, c, "/health.disk?from="+strconv.Itoa(from), operator, nil), 200)
		if got.Records != 130 || got.From != from || len(got.Damage) != min(50, 130-from) {
			t.Errorf("from %d: %d of %d records, from %d", from, len(got.Damage), got.Records, got.From)
		}
		for _, d := range got.Damage {
			seen[d.ID] = true
		}
	}
	if len(seen) != 130 {
		t.Errorf("got %d records can be seen, want 130", len(seen))
	}
}

// All groups of rejected records can be seen, a page at a time, the largest first.
func TestPagesOfGroups(t *testing.T) {
	const sinks, each, columns = 3, 90, 3 * 90 // a sink has up to 100 columns
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	for i := range sinks {
		id := fmt.Sprintf("web%d", i)
		table := forebay.Table{ID: id + ".orders"}
		var recs []*mapping.Record
		for j := range each {
			name := fmt.Sprintf("c%d_%02d", i, j)
			table.Columns = append(table.Columns, mapping.Path(name, name, mapping.DataType(datatype.Int64)))
			recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{%q:"x"}`, name)))
		}
		if i == sinks-1 {
			recs = append(recs, recs[each-1]) // the last group is the largest
		}
		if err := eng.Define(t.Context(), forebay.Source{ID: id, Sinks: []forebay.Sink{{ID: "orders", OnReject: forebay.Quarantine, Table: table}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := eng.IngestBatch(t.Context(), id, recs); err != nil {
			t.Fatal(err)
		}
	}
	c := consoleOf(t, eng, console.Options{})
	seen := make(map[string]bool)
	for from := 0; from < columns; from += 50 {
		got := answer[groupsAnswer](t, fetch(t, c, "quarantine.groups", "from", strconv.Itoa(from)), 200)
		if got.Matching != columns || got.From != from || got.Records != columns+1 || got.Others != 0 || len(got.Groups) != min(50, columns-from) {
			t.Errorf("from %d: %d of %d groups from %d, %d records, %d of others", from, len(got.Groups), got.Matching, got.From, got.Records, got.Others)
		}
		if from == 0 && got.Groups[0].Count != 2 {
			t.Errorf("the first group has %d records, want 2", got.Groups[0].Count)
		}
		for _, g := range got.Groups {
			seen[g.Column] = true
		}
		if len(got.Columns) != 100 || !got.MoreChoices {
			t.Errorf("got %d columns to choose from, want 100; more: %t", len(got.Columns), got.MoreChoices)
		}
	}
	if len(seen) != columns {
		t.Errorf("%d groups can be seen, want %d", len(seen), columns)
	}
}

// The way of a request has a bound, however many files took rows at its time, and says how many there are.
func TestTraceHasABound(t *testing.T) {
	target := buffertest.NewMemory()
	target.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			return driver.Permanent(context.Canceled)
		}
		return nil
	}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: target, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	one := trigger.Conditions{Count: 1}
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "events", Table: forebay.Table{ID: "web.events", Columns: mapping.Columns{mapping.UUID("id")}}, Settings: forebay.Settings{Upload: one, Import: one},
	}}}); err != nil {
		t.Fatal(err)
	}
	c := consoleOf(t, eng, console.Options{})
	const files = 14
	for { // until they are within the second that belongs to a request
		began := time.Now()
		for n := len(eng.Stats().Sinks[0].Files); len(eng.Stats().Sinks[0].Files) < n+files; {
			if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(began) > 900*time.Millisecond {
			continue
		}
		got := find(t, c, "", requestid.New(began)).Request
		if got == nil || len(got.Sinks) != 1 {
			t.Fatalf("got %+v, want got != nil and len(got.Sinks) == 1", got)
		}
		shown := words(got.Sinks[0].Steps)
		if n := strings.Count(shown, "\nFile @"); n != 10 || !strings.Contains(shown, "more files took rows at that time. The page of the sink lists all files.") {
			t.Errorf("%d files are shown, want 10 and the number of the others:\n%s", n, shown)
		}
		return
	}
}
