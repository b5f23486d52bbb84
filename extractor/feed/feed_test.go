package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/extractor/feed"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// serve serves three pages of two records.
func serve(t *testing.T) *extractor.Config {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("page")
		next := map[string]string{"": "2", "2": "3"}[page]
		fmt.Fprintf(w, `{"items":[{"id":"%s-a","tags":["x"]},{"id":"%[1]s-b"}]`, page)
		if next != "" {
			fmt.Fprintf(w, `,"next":"http://%s/orders?page=%s"`, r.Host, next)
		}
		fmt.Fprint(w, "}")
	}))
	t.Cleanup(srv.Close)
	cfg, err := extractor.ParseAt([]byte(`{"api":{"baseUrl":"http://x/","pagination":{"method":"response.url","urlKey":"next"}},
		"config":{"outputBucket":"b","jobs":[{"endpoint":"orders","dataField":"items"}]}}`), srv.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func orders(context.Context, string) (string, error) { return "orders", nil }

// TestInto pulls three pages into a table.
func TestInto(t *testing.T) {
	cfg := serve(t)
	tables := dir.Tables(t.TempDir())
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: tables})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}()
	def := forebay.Source{ID: "orders", Sinks: []forebay.Sink{{
		ID: "rows", Table: forebay.Table{ID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Path("id", "id", mapping.RawString()), mapping.Body("record")}},
	}}}
	if err := eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	if _, err := extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Emit: feed.Into(eng, orders)}); err != nil {
		t.Fatal(err)
	}
	if err := eng.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for row, err := range tables.Rows("in.c-shop.orders") {
		if err != nil {
			t.Fatal(err)
		}
		var record struct{ ID string }
		if err := json.Unmarshal([]byte(row[1]), &record); err != nil || record.ID != row[0] {
			t.Errorf("row %q: %v", row, err)
		}
		ids = append(ids, row[0])
	}
	if got := strings.Join(ids, " "); got != "-a -b 2-a 2-b 3-a 3-b" {
		t.Errorf("rows are %q", got)
	}

	def.Sinks[0].Table.Columns[0] = mapping.Path("id", "nothing")
	def.Sinks[0].Table.ID = "in.c-shop.other"
	if err := eng.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Emit: feed.Into(eng, orders)})
	var rejected *feed.RejectedError
	if !errors.As(err, &rejected) || rejected.Records != 2 || rejected.First.Sink != "rows" {
		t.Errorf("records that do not fit: %v", err)
	}
}

// full is an engine without room for some calls.
type full struct {
	refuse, calls int
	rows          []string
}

func (f *full) IngestAtomic(_ context.Context, _ string, b forebay.Batch) (forebay.BatchResult, error) {
	if f.calls++; f.calls <= f.refuse {
		return forebay.BatchResult{}, &buffer.OverloadError{RetryAfter: time.Second}
	}
	n := 0
	for rec := range b.Records {
		f.rows = append(f.rows, string(rec.Body))
		n++
	}
	return forebay.BatchResult{Records: n, Sinks: 1}, nil
}

// TestWaitsForRoom checks that a page is sent again when there was no room, and that the end of the context ends the wait.
func TestWaitsForRoom(t *testing.T) {
	cfg := serve(t)
	var pages []*extractor.Page
	_, err := extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Emit: func(_ context.Context, p *extractor.Page) error {
		pages = append(pages, p)
		return nil
	}})
	if err != nil || len(pages) != 3 {
		t.Fatalf("got %d pages, %v, want 3, no error", len(pages), err)
	}
	synctest.Test(t, func(t *testing.T) {
		eng := &full{refuse: 3}
		begin := time.Now()
		if err := feed.Into(eng, orders)(t.Context(), pages[0]); err != nil {
			t.Fatal(err)
		}
		if eng.calls != 4 || len(eng.rows) != 2 || time.Since(begin) != 3*time.Second {
			t.Errorf("got %d calls, rows %q, after %v, want 4 calls, 2 rows, 3s", eng.calls, eng.rows, time.Since(begin))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("enough"))
		defer cancel()
		if err := feed.Into(&full{refuse: 100}, orders)(ctx, pages[0]); err == nil || err.Error() != "enough" {
			t.Errorf("without room: %v", err)
		}
	})
}
