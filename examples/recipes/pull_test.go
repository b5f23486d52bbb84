package recipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/mapping"
)

// An API has more orders each time, and fails once in the middle. Each order is in the table once.
func TestPull(t *testing.T) {
	var orders, failures atomic.Int64
	var mu sync.Mutex
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		since, _ := strconv.Atoi(r.URL.Query().Get("since"))
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		mu.Lock()
		asked = append(asked, fmt.Sprintf("%d/%d", since, page))
		mu.Unlock()
		if page == 2 && failures.Add(-1) >= 0 {
			http.Error(w, "out of order", http.StatusForbidden)
			return
		}
		var items []string
		for n := max(since, 1) + 2*page; n <= int(orders.Load()) && len(items) < 2; n++ {
			items = append(items, fmt.Sprintf(`{"n":%d}`, n))
		}
		next := ""
		if len(items) == 2 {
			next = fmt.Sprintf(`,"next":"http://%s/orders?since=%d&page=%d"`, r.Host, since, page+1)
		}
		fmt.Fprintf(w, `{"items":[%s]%s}`, strings.Join(items, ","), next)
	}))
	defer srv.Close()
	cfg, err := extractor.ParseAt([]byte(`{"api":{"baseUrl":"http://x/","pagination":{"method":"response.url","urlKey":"next"}},
		"config":{"outputBucket":"b","jobs":[{"endpoint":"orders","dataType":"orders","dataField":"items","params":{"since":{"incremental":"start"}},
			"incremental":{"path":"n","type":"number","initial":0}}]}}`), srv.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	eng, rows := open(t, forebay.Source{ID: "orders", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "in.c-api.orders", Columns: mapping.Columns{mapping.Path("n", "n")}},
	}}})
	state := filepath.Join(t.TempDir(), "state.json")
	orders.Store(5)
	failures.Store(1)
	if err := Pull(t.Context(), eng, cfg, state); err == nil {
		t.Error("the failure of the API is not reported")
	}
	for _, n := range []int64{5, 9} {
		orders.Store(n)
		if err := Pull(t.Context(), eng, cfg, state); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for _, row := range rows("in.c-api.orders") {
		n, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	slices.Sort(got)
	mu.Lock()
	defer mu.Unlock()
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) || !slices.Contains(asked, "5/0") {
		t.Errorf("orders %v, asked for %v", got, asked)
	}
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		runs := 0
		var log strings.Builder
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Every(ctx, time.Hour, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) error {
				runs++
				return errors.New("the API is away")
			})
		}()
		time.Sleep(3*time.Hour + time.Minute)
		stop()
		<-ended
		if runs != 4 || strings.Count(log.String(), "the API is away") != 4 {
			t.Errorf("got %d runs in three hours, log %q, want 4 that say that the API is away", runs, &log)
		}
	})
}
