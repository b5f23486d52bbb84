package extractor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/extractor"
)

// The cost of saving the state of an incremental job follows the records that it delivers, not their square. A request that fails late loses
// no position, and the next run delivers the other records only.
func TestManyRecordsInLookback(t *testing.T) {
	t.Parallel()
	const perPage = 100
	for _, pages := range []int{30, 300} {
		var failed atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page, _ := strconv.Atoi(r.URL.Query().Get("page"))
			if page == pages-1 && !failed.Swap(true) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			var items []string
			for i := range perPage {
				if page <= pages {
					items = append(items, fmt.Sprintf(`{"n":%d}`, page*perPage+i))
				}
			}
			fmt.Fprintf(w, "[%s]", strings.Join(items, ","))
		}))
		defer server.Close()
		cfg, err := extractor.Parse([]byte(config(`"baseUrl": "`+server.URL+`", "pagination": {"method": "pagenum"}`,
			`"jobs": [{"endpoint": "u", "params": {"since": {"incremental": "start"}}, "incremental": {"path": "n", "type": "number", "initial": 0, "lookback": 1000000}}]`)))
		checkError(t, err, "")
		var state extractor.State
		saved, delivered := 0, make(map[string]int)
		began := time.Now()
		for try := range 2 {
			opts := extractor.Options{
				Emit: func(_ context.Context, p *extractor.Page) error {
					for rec := range p.Records() {
						delivered[string(rec.JSON())]++
					}
					return nil
				},
				Checkpoint: func(_ context.Context, s extractor.State) error {
					text, err := json.Marshal(s)
					saved += len(text)
					state = extractor.State{}
					if err == nil {
						err = json.Unmarshal(text, &state)
					}
					return err
				},
			}
			_, err := extractor.Run(t.Context(), cfg, state, opts)
			checkError(t, err, []string{"returned 403", ""}[try])
			if got, want := state.Checkpoint.Pages, int64(pages-2); try == 0 && got != want {
				t.Errorf("the state after the failed request is at page %d, want %d", got, want)
			}
		}
		for rec, n := range delivered {
			if n != 1 {
				t.Fatalf("record %s was delivered %d times, want once", rec, n)
			}
		}
		if got, want := len(delivered), pages*perPage; got != want {
			t.Errorf("%d records were delivered, want %d", got, want)
		}
		// A state may be saved once a second, and is small at first.
		const each = 60
		if most := each*pages*perPage*(6+int(time.Since(began).Seconds())) + 1<<20; saved > most {
			t.Errorf("with %d records the states that were saved are %d bytes, want at most %d", pages*perPage, saved, most)
		}
	}
}
