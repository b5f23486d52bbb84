package streamapi

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
)

// TestChangesWhileEventsFlow lets 20 clients change one source, its sinks and settings while others send events.
// Whatever was accepted is in a table once, and no change is lost.
func TestChangesWhileEventsFlow(t *testing.T) {
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem}})
	s.done("POST", b+"/sources", webSource)
	address, _ := s.get(b + "/sources/web").at("http.url").(string)

	stop := make(chan struct{})
	var senders, changers sync.WaitGroup
	var accepted, next atomic.Int64
	for range 4 {
		senders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := http.Post(address+"?verbose=true", "application/json", strings.NewReader(fmt.Sprintf(`{"user":{"id":"u%d"}}`, next.Add(1))))
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				accepted.Add(int64(strings.Count(string(text), `"processed"`)))
			}
		})
	}
	const rounds = 6
	var busy, added, renamed atomic.Int64
	for i := range 20 {
		changers.Go(func() {
			for k := range rounds {
				path, method, body := b+"/sources/web/sinks/events", "PATCH", fmt.Sprintf(`{"description":"%d/%d"}`, i, k)
				switch i % 4 {
				case 1:
					path, body = b+"/sources/web/settings", fmt.Sprintf(`{"settings":[{"key":"%s","value":%d}]}`, count, 1000+i*rounds+k)
				case 2:
					path, body = b+"/sources/web", fmt.Sprintf(`{"name":"Web %d/%d"}`, i, k)
				case 3:
					path, method = b+"/sources/web/sinks", "POST"
					body = strings.Replace(strings.Replace(webSink, `"Events"`, fmt.Sprintf(`"S %d %d"`, i, k), 1), "events", fmt.Sprintf("s%dx%d", i, k), 1)
				}
				req, _ := http.NewRequest(method, s.server.URL+path, strings.NewReader(body))
				req.Header.Set(tokenHeader, testToken)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				switch resp.StatusCode {
				case 202:
					switch {
					case i%4 == 3:
						added.Add(1)
					case i%4 == 2:
						renamed.Add(1)
					}
				case 409:
					if !strings.Contains(string(text), "taskIsRunning") {
						t.Errorf("got %s, want strings.Contains(string(text), \"taskIsRunning\")", text)
					}
					busy.Add(1)
				default:
					t.Errorf("status %d: %s", resp.StatusCode, text)
				}
			}
		})
	}
	changers.Wait()
	for _, op := range s.cat.Tasks() {
		if _, err := s.ended(op.ID); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	senders.Wait()
	if accepted.Load() == 0 {
		t.Fatal("no event was accepted")
	}
	for _, task := range s.cat.Tasks() {
		if task.Status != "success" {
			t.Errorf("task %s: %s", task.ID, task.Failure)
		}
	}
	sinks := s.get(b + "/sources/web/sinks")
	if got := sinks.at("page.totalCount"); got != float64(1+added.Load()) {
		t.Errorf("got %v sinks, want 1 and the %d that were added", got, added.Load())
	}
	must(t, s.eng.FlushAll(t.Context()))
	var rows int64
	for _, st := range s.eng.Stats().Sinks {
		if st.Local.Rows+st.Staging.Rows != 0 {
			t.Errorf("sink %s: rows wait after a flush", st.ID)
		}
		rows += st.Target.Rows
	}
	if rows != accepted.Load() {
		t.Errorf("got %d rows in the tables, want %d, which were accepted", rows, accepted.Load())
	}
	report, err := s.eng.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("ledger: %+v, %v", report, err)
	}
	t.Logf("%d rows accepted, %d sinks added, %d changes refused because another was running", rows, added.Load(), busy.Load())
}
