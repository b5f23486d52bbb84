package console_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

type healthHead struct {
	Ready, Cluster      bool
	Readiness, Verified []any
	Facts               []struct{ Name, Value, Note string }
	Damages, Different  int
	State               string
	Differences         []string
}

// textOf joins the texts of a sentence.
func textOf(parts []any) string {
	var b strings.Builder
	for _, p := range parts {
		if s, ok := p.(string); ok {
			b.WriteString(s)
		}
	}
	return b.String()
}

func healthOf(t *testing.T, c *console.Console, token string) healthHead {
	t.Helper()
	return answer[struct{ Full struct{ Head healthHead } }](t, send(t, c, "/snapshot?page=health", token, nil), 200).Full.Head
}

// openDamaged has a sink web/events with two rows on its disk, of which one was changed while the engine was closed. With copies, the damage was
// found before, and its record is there so many times.
func openDamaged(t *testing.T, copies int) *forebay.Engine {
	t.Helper()
	folder := t.TempDir()
	open := func() *forebay.Engine {
		eng, err := forebay.Open(folder, forebay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
			ID: "web.events", Columns: mapping.Columns{mapping.Path("kind", "kind")},
		}}}}); err != nil {
			t.Fatal(err)
		}
		return eng
	}
	eng := open()
	for range 2 { // two commits, so two chunks
		ingest(t, eng, mapping.JSON([]byte(`{"kind":"click click click click click"}`)))
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	// stored changes the store with the first key that begins with a prefix, and its value.
	stored := func(prefix byte, change func(db *pebble.DB, key, value []byte) error) {
		t.Helper()
		db, err := pebble.Open(filepath.Join(folder, "local"), &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
		if err != nil {
			t.Fatal(err)
		}
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
		if err != nil || !it.First() {
			t.Fatalf("nothing is stored below %q: %v", prefix, err)
		}
		key, value := bytes.Clone(it.Key()), bytes.Clone(it.Value())
		if err := errors.Join(it.Close(), change(db, key, value), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	stored('c', func(db *pebble.DB, key, value []byte) error {
		value[len(value)-1] ^= 1
		return db.Set(key, value, pebble.Sync)
	})
	eng = open()
	if copies > 0 {
		if err := errors.Join(eng.Flush(t.Context(), "web"), eng.Close()); err != nil {
			t.Fatal(err)
		}
		stored('q', func(db *pebble.DB, key, value []byte) error {
			for i := range copies - 1 {
				if err := db.Set(binary.BigEndian.AppendUint16(bytes.Clone(key), uint16(i)), value, pebble.Sync); err != nil {
					return err
				}
			}
			return nil
		})
		eng = open()
	}
	t.Cleanup(func() { _ = eng.Close() })
	return eng
}

// Verify is a task of users who may make changes, and all users see its outcome. Only users who may read records see the differences in words.
func TestHealthVerify(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: threeTokens, Version: "v1.2.3"})
	head := healthOf(t, c, reader)
	if !head.Ready || head.Cluster || head.State != "" || !strings.Contains(textOf(head.Verified), "No verification has run") {
		t.Errorf("before: %+v", head)
	}
	facts := map[string]string{}
	for _, f := range head.Facts {
		facts[f.Name] = f.Value
	}
	// The bound is 16 GiB, or less if the volume has less.
	if !strings.Contains(facts["Disk limit, used by waiting rows"], " B of ") || !strings.HasSuffix(facts["Memory for rows that are not on disk yet"], " of 64.0 MiB") || facts["Version"] != "v1.2.3" {
		t.Errorf("facts %v", facts)
	}
	begun := answer[started](t, send(t, c, "/health.verify", operator, obj{}), 200)
	if state, progress := taskOf(t, c, begun.Task); state != "done" || progress != "6 rows recounted, no difference" {
		t.Errorf("got %s, %s, want state == \"done\" and progress == \"6 rows recounted, no difference\"", state, progress)
	}
	eventually(t, "the outcome", func() bool { return healthOf(t, c, reader).State == "ok" })
	if text := textOf(healthOf(t, c, reader).Verified); text != "Verified , 6 rows of 2 sinks recounted: no difference." {
		t.Errorf("the outcome is %q", text)
	}
	shows(t, c, ordersPage, `(difference 0, verified ",`) // the time follows
}

func TestHealthDamage(t *testing.T) {
	eng := openDamaged(t, 0)
	c := consoleOf(t, eng, console.Options{})
	begun := answer[started](t, send(t, c, "/health.verify", operator, obj{}), 200)
	if state, progress := taskOf(t, c, begun.Task); state != "failed" || !strings.Contains(progress, "differ") {
		t.Errorf("got %s, %s, want state == \"failed\" and strings.Contains(progress, \"differ\")", state, progress)
	}
	eventually(t, "the outcome", func() bool { return healthOf(t, c, readsRecords).State == "error" })
	shows(t, c, "page=sink&source=web&sink=events", `: stored rows differ, see Health)"]`)
	if head := healthOf(t, c, readsRecords); len(head.Differences) == 0 || head.Different != len(head.Differences) || !strings.HasPrefix(head.Differences[0], "web/events: ") {
		t.Errorf("differences %q, %v", head.Differences, head.Verified)
	}
	head := healthOf(t, c, reader)
	if len(head.Differences) != 0 || !strings.Contains(textOf(head.Verified), "1 sink differs. The differences need the right to records.") {
		t.Errorf("with numbers alone: %+v", head)
	}

	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	type disk struct {
		Free, Problem any
		Records       int
		Damage        []struct{ ID, Sink, Rows, Reason string }
	}
	got := answer[disk](t, send(t, c, "/health.disk", readsRecords, nil), 200)
	if got.Records != 1 || len(got.Damage) != 1 || got.Damage[0].Sink != "web/events" || got.Damage[0].Rows != "1" || got.Damage[0].Reason == "" || got.Free == "–" {
		t.Errorf("got %+v, want one damage record of web/events with a row and a reason, and the free room", got)
	}
	got = answer[disk](t, send(t, c, "/health.disk", reader, nil), 200)
	if got.Records != 1 || len(got.Damage) != 1 || got.Damage[0].Reason != "" {
		t.Errorf("with numbers alone: %+v", got)
	}

	forget := obj{"id": got.Damage[0].ID}
	answer[obj](t, send(t, c, "/health.forget", readsRecords, forget), 403)
	answer[obj](t, send(t, c, "/health.forget", operator, forget), 200)
	answer[obj](t, send(t, c, "/health.forget", operator, forget), 404)
	if got = answer[disk](t, send(t, c, "/health.disk", operator, nil), 200); got.Records != 0 || healthOf(t, c, operator).Damages != 0 {
		t.Errorf("after the record was removed: %+v, and %d records in the live part, want none", got, healthOf(t, c, operator).Damages)
	}
}

type nodesAnswer struct {
	Problem           string
	Count, Away, From int
	Nodes             []struct {
		Name, Instance, Epoch, Missing, Log, Lag string
		Ready                                    bool
		Adopting, Adopted, Damaged               []string
	}
}

func TestHealthNodes(t *testing.T) {
	var asked atomic.Int64
	c := newConsole(t, console.Options{Tokens: threeTokens, Nodes: func(context.Context) ([]catalog.Node, error) {
		asked.Add(1)
		return []catalog.Node{
			{Name: "a", Instance: "a-0_x", Epoch: 3, Ready: true, Warning: `server "secret" is slow`, LogBytes: 1 << 20, LogMaxBytes: 64 << 20, LogBehind: 1, LogLag: 7},
			{Name: "b", Instance: "b-0_x", Missing: `the value "secret" is refused`, Damaged: []string{"b-0_w"}, Adopting: []string{"c-0_x\u202e"}},
		}, errors.New(`server "inner" is away`)
	}})
	if !healthOf(t, c, reader).Cluster {
		t.Error("the page does not know that there are nodes")
	}
	got := answer[nodesAnswer](t, send(t, c, "/health.nodes", readsRecords, nil), 200)
	if len(got.Nodes) != 2 || got.Problem != `Nodes may be missing here: server "inner" is away` {
		t.Fatalf("got %+v, want len(got.Nodes) == 2 and got.Problem == `Nodes may be missing here: server \"inner\" is away`", got)
	}
	if a := got.Nodes[1]; !a.Ready || a.Epoch != "3" || a.Log != "1.00 MiB of 64.0 MiB, 1.56 %" || a.Lag != "1 copy, 7 changes" || a.Missing != `server "secret" is slow` {
		t.Errorf("got %+v, want a ready node of epoch 3 with its warning, its log and its lag", a)
	}
	if b := got.Nodes[0]; b.Ready || b.Missing != `the value "secret" is refused` || b.Damaged[0] != "b-0_w" || b.Adopting[0] != "c-0_x‹U+202E›" || b.Log != "–" || b.Epoch != "–" {
		t.Errorf("got %+v, want a node that is not ready, its reason, its instances, and no log", b)
	}
	w := send(t, c, "/health.nodes", reader, nil)
	if got := answer[nodesAnswer](t, w, 200); len(got.Nodes) != 2 || got.Nodes[0].Missing == "" || strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "inner") {
		t.Errorf("with numbers alone: %s", w.Body)
	}
	if n := asked.Load(); n > 1 {
		t.Logf("the nodes were asked %d times", n) // a slow machine
	}
}

func TestHealthRights(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: threeTokens})
	for name, want := range map[string][4]int{ // without a token, with numbers, records and all rights
		"health.disk":  {401, 200, 200, 200},
		"health.nodes": {401, 404, 404, 404}, // no nodes are listed
	} {
		for i, token := range []string{"", reader, readsRecords, operator} {
			if w := send(t, c, "/"+name, token, nil); w.Code != want[i] {
				t.Errorf("%s with token %q: status %d, want %d", name, token, w.Code, want[i])
			}
		}
		if w := send(t, c, "/"+name, reader, nil, "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
			t.Errorf("%s from another site: status %d, want 403", name, w.Code)
		}
	}
	for token, status := range map[string]int{"": 401, reader: 403, readsRecords: 403} {
		if w := send(t, c, "/health.verify", token, obj{}); w.Code != status {
			t.Errorf("verify with token %q: status %d, want %d", token, w.Code, status)
		}
	}
	if w := send(t, c, "/health.verify", operator, obj{}, "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
		t.Errorf("verify from another site: status %d", w.Code)
	}
}
