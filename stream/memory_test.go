package stream_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// The body of a request is in the memory of the next requests before its response is written. The response and the table
// contain nothing of another request.
func TestAnswersQuoteTheirOwnRequest(t *testing.T) {
	const clients, events = 16, 25
	def := source("web", mapping.Path("id", "id"), mapping.Headers("headers"))
	def.Sinks = append(def.Sinks, forebay.Sink{ID: "none", Table: forebay.Table{
		ID: "in.c-web.none", Columns: mapping.Columns{mapping.Template("x", `error "refused " + Body("id")`)},
	}})
	s := newService(t, nil, def)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for e := range events {
				id := fmt.Sprintf("event-%d-%d-%s!", c, e, strings.Repeat("x", 5*(c+e)%90))
				status, _, answer := s.post("web", "application/json", fmt.Sprintf(`{"id":%q}`, id))
				if status != 422 || !strings.Contains(answer, "refused "+id) {
					t.Errorf("%s is answered %d %s", id, status, answer)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, row := range s.rows("web") {
		seen[row[0]] = true
		if !strings.Contains(row[1], `"Content-Type":"application/json"`) || !strings.Contains(row[1], `"Host":"127.0.0.1`) {
			t.Errorf("row %q", row)
		}
	}
	if len(seen) != clients*events {
		t.Errorf("%d different events are in the table, want %d", len(seen), clients*events)
	}
}
