package catalog_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// A search through the content of large records ends after pages that may be empty, in the order of the rejections of all nodes. A
// task takes exactly the records that it selects.
func TestSearchThroughAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		all := cluster.three()
		a, b := all[0], all[1]
		done(t, a.Catalog)(a.CreateSource(user, shop()))
		same(t, all...)
		large := bytes.Repeat([]byte{'x'}, 6<<20)
		var want []string
		for i := range 14 {
			n := all[i%3]
			body := []byte(fmt.Sprintf(`{"n":"needle %d"}`, i))
			if n == b && i < 9 { // it has to look through large records before its first match, while the others have matched later ones
				body = slices.Concat([]byte(`{"n":"`), large, []byte(`"}`))
			} else {
				want = append(want, fmt.Sprint("needle ", i))
			}
			if _, err := n.eng.Ingest(t.Context(), "shop", mapping.JSON(body)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		for _, n := range all[1:] {
			for _, limit := range []int{3, 100} {
				var got []string
				f, empty := forebay.RejectedFilter{Content: "NEEDLE"}, 0
				for range 50 {
					page, err := n.Handle("shop", "orders").Rejected(t.Context(), f, limit)
					if err != nil || len(page.Missing) > 0 || page.Total != 14 || len(page.Records) > limit {
						t.Fatalf("got %+v, %v, want at most %d of 14 records, none missing", page, err, limit)
					}
					for _, r := range page.Records {
						c, err := n.Handle("shop", "orders").RejectedRecord(t.Context(), r.ID)
						must(t, err)
						got = append(got, string(c.Record.Body[6:len(c.Record.Body)-2]))
					}
					if len(page.Records) < limit {
						empty++
					}
					if f.After = page.Next; f.After == "" {
						break
					}
				}
				if f.After != "" || !slices.Equal(got, want) || limit == 100 && empty < 2 {
					t.Errorf("in pages of %d: %q, want %q; %d pages are short", limit, got, want, empty)
				}
			}
		}
		task := done(t, a.Catalog)(a.Handle("shop", "orders").DiscardRejects(user, catalog.RejectedSelection{Filter: forebay.RejectedFilter{Content: "needle"}}, "test data"))
		if task, err := b.Task(task.ID); err != nil || *task.Discard != (catalog.Discard{By: "1", Reason: "test data"}) {
			t.Errorf("another node shows %+v, %v", task.Discard, err)
		}
		if *task.Rejects != (catalog.RejectsResult{Discarded: len(want)}) {
			t.Errorf("got %+v, want *task.Rejects == (catalog.RejectsResult{Discarded: len(want)})", task.Rejects)
		}
		if list, _ := listed(t, a.Catalog, 5); len(list) != 14-len(want) {
			t.Errorf("%d records are left, want %v", len(list), 14-len(want))
		}
	})
}
