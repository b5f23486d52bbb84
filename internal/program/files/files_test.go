package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/files"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/streamapi"
)

const token = "t0ken-canary"

// shop is a server with a sink whose target refuses orders with the kind "bad".
type shop struct {
	t   *testing.T
	api string
	mem *buffertest.Memory
	eng *forebay.Engine
}

func newShop(t *testing.T, change ...func(*forebay.Options)) *shop {
	t.Helper()
	s := &shop{t: t, mem: buffertest.NewMemory()}
	s.mem.Refuse = func(_ string, row []string) driver.RowError {
		if row[0] != "bad" {
			return driver.RowError{}
		}
		return driver.RowError{Column: "kind", Reason: "23514"}
	}
	opts := forebay.Options{Staging: s.mem, Target: s.mem}
	for _, f := range change {
		f(&opts)
	}
	var err error
	if s.eng, err = forebay.Open(t.TempDir(), opts); err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Open(filepath.Join(t.TempDir(), "catalog"), s.eng, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cat.Close(), s.eng.Close()); err != nil {
			t.Error(err)
		}
	})
	task, err := cat.CreateSource(catalog.By{Type: "user"}, catalog.SourceSpec{ID: "shop", Name: "shop", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{
		ID: "orders", Name: "orders", TableID: "in.c-shop.orders", OnReject: forebay.Quarantine, Columns: mapping.Columns{mapping.Path("kind", "kind", mapping.RawString())},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if task, err = task.Wait(t.Context()); err != nil || task.Status != catalog.Succeeded {
		t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
	}
	h, err := streamapi.New(cat, streamapi.Options{Auth: streamapi.StaticToken(token, 1), IngestURL: "http://events.example"})
	if err != nil {
		t.Fatal(err)
	}
	managed := httptest.NewServer(h)
	t.Cleanup(managed.Close)
	s.api = managed.URL
	return s
}

// held puts 20 rows, all of which the target refuses, into a file that is held.
func (s *shop) held() (file string) {
	s.t.Helper()
	for range 20 {
		if _, err := s.eng.Ingest(s.t.Context(), "shop", mapping.JSON([]byte(`{"kind":"bad"}`))); err != nil {
			s.t.Fatal(err)
		}
	}
	var held *buffer.HeldError
	if err := s.eng.Flush(s.t.Context(), "shop"); !errors.As(err, &held) {
		s.t.Fatalf("Flush = %v", err)
	}
	return held.FileID
}

func (s *shop) run(args ...string) (string, error) {
	var o, e bytes.Buffer
	err := files.Run(s.t.Context(), args, api.Environment{Out: &o, Errors: &e, Getenv: func(name string) string {
		return map[string]string{"FOREBAY_API": s.api, "FOREBAY_TOKEN": token}[name]
	}})
	return o.String() + e.String(), err
}

func TestFiles(t *testing.T) {
	s := newShop(t)
	for i, want := range []struct {
		action       string
		table, added int
	}{{"split", 0, 20}, {"quarantine", 0, 40}, {"discard", 0, 40}} {
		file := s.held()
		if out, err := s.run("list", "shop/orders"); err != nil || !strings.Contains(out, file) || !strings.Contains(out, "23514") || strings.Count(out, "\n") != 2 {
			t.Errorf("list: %q, %v", out, err)
		}
		if out, err := s.run("list", "-json", "-all", "shop/orders"); err != nil || strings.Count(out, "\n") != i+1 || !strings.Contains(out, `"fileId":"`+file) {
			t.Errorf("list of all: %q, %v", out, err)
		}
		if out, err := s.run("list"); err != nil || !strings.HasPrefix(out, "SINK ") || !strings.Contains(out, "shop/orders  "+file) || strings.Count(out, "\n") != 2 {
			t.Errorf("list of all sinks: %q, %v", out, err)
		}
		if out, err := s.run("retry", "shop/orders", file); err != nil || out != "A new attempt has started.\n" {
			t.Errorf("retry: %q, %v", out, err)
		}
		var held *buffer.HeldError
		if err := s.eng.Flush(t.Context(), "shop"); !errors.As(err, &held) {
			t.Errorf("after the retry: %v", err)
		}
		if out, err := s.run(want.action, "shop/orders", file); err != nil || out == "" {
			t.Errorf("%s: got %q, %v, want no error and out != \"\"", want.action, out, err)
		}
		if err := s.eng.Flush(t.Context(), "shop"); err != nil {
			t.Errorf("after %s: %v", want.action, err)
		}
		if st := s.eng.Stats().Sinks[0]; int(st.Target.Rows) != want.table || int(st.Quarantine.Added) != want.added {
			t.Errorf("after %s: %d rows in the table, %d in the quarantine", want.action, st.Target.Rows, st.Quarantine.Added)
		}
		if _, err := s.run(want.action, "shop/orders", file); err == nil || !strings.Contains(err.Error(), "fileNotFound") {
			t.Errorf("%s of a file that has ended: %v", want.action, err)
		}
		if out, err := s.run("list"); err != nil || strings.Count(out, "\n") != 1 {
			t.Errorf("list of all sinks after %s: %q, %v", want.action, out, err)
		}
	}
	var wrong *api.UsageError
	for _, args := range [][]string{{}, {"list", "-all"}, {"melt", "shop/orders"}, {"split", "shop/orders"}, {"list", "shop/orders", "x"}, {"split", "-x", "shop/orders", "y"}} {
		if _, err := s.run(args...); !errors.As(err, &wrong) {
			t.Errorf("%q: got %v, want errors.As(err, &wrong)", args, err)
		}
	}
}

// Of thousands of sinks that fail, each is listed once, page by page, even if the last file of a page has left the list meanwhile.
func TestFilesOfManySources(t *testing.T) {
	sources := 2_100 // three pages
	if seedtest.Nightly() {
		sources = 10_000
	}
	s := newShop(t, func(o *forebay.Options) {
		o.MaxSources, o.Logger = sources+1, slog.New(slog.DiscardHandler)
	})
	s.mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			return driver.Permanent(errors.New("the table is locked"))
		}
		return nil
	}
	ids := make(chan string)
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for id := range ids {
				err := s.eng.Define(t.Context(), forebay.Source{ID: id, Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: id, Columns: mapping.Columns{mapping.Path("kind", "kind", mapping.RawString())}}}}})
				if err == nil {
					_, err = s.eng.Ingest(t.Context(), id, mapping.JSON([]byte(`{"kind":"bad"}`)))
				}
				var held *buffer.HeldError
				if err == nil && !errors.As(s.eng.Flush(t.Context(), id), &held) {
					err = errors.New("no file is held")
				}
				if err != nil {
					t.Errorf("source %s: %v", id, err)
				}
			}
		})
	}
	for i := range sources {
		ids <- fmt.Sprint("tenant-", i)
	}
	close(ids)
	callers.Wait()
	listed := map[string]int{}
	out, err := s.run("list", "-json")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		var f struct{ SourceID string }
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		listed[f.SourceID]++
	}
	for i := range sources {
		if n := listed[fmt.Sprint("tenant-", i)]; n != 1 {
			t.Errorf("source tenant-%d is listed %d times, want once", i, n)
		}
	}
	if out, err := s.run("list", "tenant-7"); err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, "tenant-7/orders  ") {
		t.Errorf("list of a source: %q, %v", out, err)
	}

	if out, err := s.run("list", "tenant-x"); err == nil || !strings.Contains(err.Error(), "sourceNotFound") {
		t.Errorf("list of an unknown source: got %q, %v, want sourceNotFound", out, err)
	}

	type page struct {
		TotalCount int
		NextID     string
		Files      []struct{ SourceID, FileID string }
	}
	get := func(after string) (p page) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api+"/v1/branches/default/failed-files?afterId="+url.QueryEscape(after), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-StorageApi-Token", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := get("")
	last := first.Files[len(first.Files)-1]
	if err := s.eng.Sink(last.SourceID, "orders").Discard(t.Context(), last.FileID); err != nil {
		t.Fatal(err)
	}
	rest := 0
	for after := first.NextID; after != ""; {
		p := get(after)
		if rest += len(p.Files); p.TotalCount != sources-1 {
			t.Errorf("a page counts %d files, want %d", p.TotalCount, sources-1)
		}
		after = p.NextID
	}
	if len(first.Files)+rest != sources {
		t.Errorf("the pages have %d and %d files, want %d together", len(first.Files), rest, sources)
	}
}
