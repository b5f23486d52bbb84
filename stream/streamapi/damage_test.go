package streamapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// A server whose disk has lost rows lists the records of damage, and removes each on request. The metric that the alert watches is 0 then.
func TestForgetDamage(t *testing.T) {
	dir, mem := t.TempDir(), buffertest.NewMemory()
	eng, err := forebay.Open(dir, forebay.Options{Target: mem})
	must(t, err)
	err = eng.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{
		ID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Body("body")},
	}}}})
	must(t, err)
	for range 50 {
		if _, err := eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"price":"a row that waits"}`))); err != nil {
			t.Fatal(err)
		}
	}
	must(t, eng.Close())
	files, err := filepath.Glob(filepath.Join(dir, "local", "0*")) // tables and logs
	if err != nil || len(files) == 0 {
		t.Fatalf("the local level has no files: %v", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		must(t, err)
		if len(text) > 0 {
			text[len(text)/2] ^= 1
		}
		must(t, os.WriteFile(path, text, 0o600))
	}
	s := newMaintainedIn(t, dir, mem)
	if err := s.eng.FlushAll(t.Context()); err != nil { // the damage that the import finds is added to the damage that Open has found
		t.Fatal(err)
	}
	const path = b + "/damage"
	list, _ := s.want(200, `"reason":"`, testToken, "GET", path, "")["damage"].([]any)
	if n := s.eng.Stats().Damages; len(list) == 0 || n != int64(len(list)) {
		t.Fatalf("the list is %v and the metric counts %d, want the same number of records, and at least one", list, n)
	}
	s.want(403, "forbidden", readerToken, "GET", path, "")
	s.want(404, "damageNotFound", testToken, "DELETE", path+"/00", "")
	for _, record := range list {
		id, _ := record.(map[string]any)["damageId"].(string)
		s.want(403, "forbidden", readerToken, "DELETE", path+"/"+id, "")
		s.want(200, "", testToken, "DELETE", path+"/"+id, "")
		s.want(404, "damageNotFound", testToken, "DELETE", path+"/"+id, "")
	}
	s.want(200, `"damage":[]`, testToken, "GET", path, "")
	if n := s.eng.Stats().Damages; n != 0 {
		t.Errorf("the metric counts %d records, want 0", n)
	}
}

// Retries and counters need no definitions of a catalog.
func TestMaintenanceOfFailedImports(t *testing.T) {
	mem, imported := buffertest.NewMemory(), make(chan struct{}, 10)
	mem.After = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			imported <- struct{}{}
		}
		return nil
	}
	s := newMaintainedIn(t, t.TempDir(), mem)
	s.define(datatype.String, false)
	const source = b + "/sources/shop"
	const table = "in.c-shop.string"
	columns := s.mem.Columns(table)
	for i, path := range []string{source + "/retry", source + "/sinks/orders/retry"} {
		s.mem.Alter(table, datatype.UntypedColumns("other")...)
		if _, err := s.eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"price":"x"}`))); err != nil {
			t.Fatal(err)
		}
		var held *buffer.HeldError
		if err := s.eng.Flush(t.Context(), "shop"); !errors.As(err, &held) {
			t.Fatalf("the import into a table with other columns: %v, want a HeldError", err)
		}
		s.mem.Alter(table, columns...)
		s.want(404, "sinkNotFound", testToken, "POST", source+"/sinks/none/retry", "")
		s.want(404, "sourceNotFound", testToken, "POST", b+"/sources/none/retry", "")
		s.want(403, "forbidden", readerToken, "POST", path, "")
		s.want(200, "", testToken, "POST", path, "")
		<-imported // else the next attempt is minutes away
		if err := s.eng.Flush(t.Context(), "shop"); err != nil {
			t.Errorf("%s: after the retry: got %v, want no error", path, err)
		}
		s.want(200, fmt.Sprintf(`"recordsCount":%d`, i+1), testToken, "GET", source+"/sinks/orders/statistics/total", "")
	}
}
