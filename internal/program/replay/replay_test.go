package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/replay"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/streamapi"
)

const token = "t0ken-canary"

// shop is a server whose archive has records of a source, and a sink for them.
type shop struct {
	t       *testing.T
	address string
	cat     *catalog.Catalog
}

const orders = 5

func newShop(t *testing.T) *shop {
	t.Helper()
	data := t.TempDir()
	eng, err := forebay.Open(filepath.Join(data, "engine"), forebay.Options{
		Target: buffertest.NewMemory(), Archive: dir.Archive(filepath.Join(data, "archive"), dir.ArchiveOptions{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Open(filepath.Join(data, "catalog"), eng, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cat.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	})
	done := func(task catalog.Task, err error) {
		t.Helper()
		if err == nil {
			task, err = task.Wait(t.Context())
		}
		if err != nil || task.Status != catalog.Succeeded {
			t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
		}
	}
	by := catalog.By{Type: "user"}
	done(cat.CreateSource(by, catalog.SourceSpec{ID: "shop", Name: "shop", Type: forebay.HTTP, Archive: true, Sinks: []catalog.SinkSpec{{
		ID: "orders", Name: "orders", TableID: "in.c-shop.orders",
		Columns: mapping.Columns{mapping.Path("price", "price", mapping.DataType(datatype.Int64), mapping.Required())},
	}}}))
	for i := range orders {
		if _, err := eng.Ingest(t.Context(), "shop", mapping.JSON(fmt.Appendf(nil, `{"price":%d}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	h, err := streamapi.New(cat, streamapi.Options{Auth: streamapi.StaticToken(token, 1), IngestURL: "http://127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &shop{t: t, address: server.URL, cat: cat}
}

// run calls the program with the address and token of the server.
func (s *shop) run(args ...string) (out, errs string, err error) {
	s.t.Helper()
	args = append([]string{args[0], "-api", s.address, "-token", token}, args[1:]...)
	var o, e bytes.Buffer
	err = replay.Run(s.t.Context(), args, api.Environment{Out: &o, Errors: &e, Getenv: func(string) string { return "" }})
	return o.String(), e.String(), err
}

func TestReplay(t *testing.T) {
	s := newShop(t)
	for range 2 {
		out, _, err := s.run("start", "-run", "first", "-from", "2000-01-01T00:00:00Z", "shop/orders")
		if err != nil || out != "5 archived records were read, 5 have become rows.\n" {
			t.Fatalf("got %q, %v, want no error and out == \"5 archived records were read, 5 have become rows.\\n\"", out, err)
		}
	}
	if _, _, err := s.run("start", "-run", "first", "shop/orders"); err == nil || !strings.Contains(err.Error(), "other options") {
		t.Errorf("another range: %v", err)
	}
	out, _, err := s.run("start", "-json", "-run", "none", "-to", "2000-01-01T00:00:00Z", "-rows-per-second", "100", "-archived", "shop", "shop/orders")
	var task struct {
		Status string
		Replay struct{ Records int }
	}
	if err != nil || json.Unmarshal([]byte(out), &task) != nil || task.Status != "success" || task.Replay.Records != 0 {
		t.Errorf("got %s, %v, want a task that succeeded without records, no error", out, err)
	}
	out, _, err = s.run("list", "shop/orders")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], "RUN") || !strings.HasPrefix(lines[1], "first  shop") || !strings.HasPrefix(lines[2], "none") {
		t.Errorf("list:\n%s%v", out, err)
	}
	var list struct{ Runs []struct{ Stored int } }
	if out, _, err = s.run("list", "-json", "shop/orders"); err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list.Runs) != 2 || list.Runs[0].Stored != orders {
		t.Errorf("list as JSON: %s, %v", out, err)
	}
}

// A run that waits for its pace is cancelled. The caller that waits for its end is notified, and the same run resumes later.
func TestCancel(t *testing.T) {
	s := newShop(t)
	if _, _, err := s.run("cancel", "shop/orders"); err == nil || !strings.Contains(err.Error(), "taskNotFound") {
		t.Errorf("nothing to cancel: %v", err)
	}
	started := make(chan error, 1)
	go func() {
		_, _, err := s.run("start", "-run", "slow", "-rows-per-second", "0.001", "shop/orders")
		started <- err
	}()
	stored := func() int64 {
		runs, err := s.cat.ArchiveReplays("shop", "orders").Runs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) == 0 {
			return 0
		}
		return runs[0].Stored
	}
	for stored() == 0 {
		<-time.After(time.Millisecond)
	}
	if out, _, err := s.run("cancel", "shop/orders"); err != nil || !strings.Contains(out, "cancelled") {
		t.Errorf("got %q, %v, want no error and strings.Contains(out, \"cancelled\")", out, err)
	}
	if err := <-started; err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("start has ended with %v", err)
	}
	if n := stored(); n != 1 {
		t.Errorf("%d rows were stored, want 1", n)
	}
	if out, _, err := s.run("start", "-run", "slow", "shop/orders"); err != nil || !strings.HasPrefix(out, "5 archived records") {
		t.Errorf("got %q, %v, want no error and strings.HasPrefix(out, \"5 archived records\")", out, err)
	}
}

func TestWrongCalls(t *testing.T) {
	s := newShop(t)
	for _, args := range [][]string{
		{"stop", "shop/orders"},
		{"start", "shop/orders"},
		{"start", "-run", "A b", "shop/orders"},
		{"start", "-run", "a", "-from", "24h", "shop/orders"},
		{"start", "-run", "a", "-rows-per-second", "-1", "shop/orders"},
		{"start", "-run", "a", "shop"},
		{"start", "-run", "a", "shop/orders", "-json"},
		{"list", "-api", "nowhere", "shop/orders"},
		{"list", "-wrong", "shop/orders"},
	} {
		_, _, err := s.run(args...)
		if _, ok := errors.AsType[*api.UsageError](err); !ok || strings.Contains(err.Error(), token) {
			t.Errorf("%q: got %v, want ok and !strings.Contains(err.Error(), token)", args, err)
		}
	}
	if _, _, err := s.run("start", "-h"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	if _, _, err := s.run("start", "-run", "a", "shop/none"); err == nil || !strings.Contains(err.Error(), "sinkNotFound") {
		t.Errorf("a sink that does not exist: %v", err)
	}
}
