package extractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/synctest"
)

// A store keeps records with times, and returns them from a time on, or within a window, in pages of two. Everything is in seconds of
// 2024-01-01.
type store struct {
	mu      sync.Mutex
	records []int // the second of each
	asked   []string
	// tokenUses is how many requests an access token is good for. 0 means that no token is needed.
	tokenUses, used, tokens int
}

// answerToken handles requests for tokens, and requests without a good one.
func (s *store) answerToken(r *http.Request, w http.ResponseWriter) bool {
	switch {
	case s.tokenUses == 0:
		return false
	case r.URL.Path == "/token":
		s.tokens++
		s.used = 0
		fmt.Fprintf(w, `{"access_token": "at-%d", "refresh_token": "rt-%d"}`, s.tokens, s.tokens)
		return true
	}
	if s.used++; s.used > s.tokenUses || r.Header.Get("Authorization") != fmt.Sprintf("Bearer at-%d", s.tokens) {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	return false
}

var dayOne = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := httptest.NewRecorder()
	if s.answerToken(r, w) {
		return w.Result(), nil
	}
	s.asked = append(s.asked, r.URL.RequestURI())
	q := r.URL.Query()
	number := func(name string, byDefault int64) int64 {
		if i, err := strconv.ParseInt(q.Get(name), 10, 64); err == nil {
			return i
		}
		return byDefault
	}
	var found []string
	for id, second := range s.records {
		at := dayOne + int64(second)
		if at >= number("since", 0) && at >= number("from", 0) && at < number("to", 1<<60) {
			found = append(found, fmt.Sprintf(`{"id": %d, "at": %q}`, id, time.Unix(at, 0).UTC().Format(time.RFC3339)))
		}
	}
	from := min(int(number("page", 1)-1)*2, len(found))
	if name, ok := strings.CutPrefix(r.URL.Path, "/kids/"); ok {
		fmt.Fprintf(w, `[{"kid": %q}]`, name)
	} else {
		fmt.Fprintf(w, "[%s]", strings.Join(found[from:min(from+2, len(found))], ","))
	}
	return w.Result(), nil
}

const positions = `"jobs": [
	{"endpoint": "inc", "params": {"since": {"incremental": "start"}}, "incremental": {"path": "at", "initial": "2024-01-01"}, "scroller": "p", "parallelChildren": 3,
		"children": [{"endpoint": "kids/{id}", "dataType": "kids", "placeholders": {"id": "id"}}]},
	{"endpoint": "win", "params": {"from": {"window": "from"}, "to": {"window": "to"}}, "windows": {"from": "2024-01-01", "to": "2024-01-01 00:01:00", "step": "20 seconds"}, "scroller": "p"},
	{"endpoint": "plain", "scroller": "p"}]`

const byPages = `"pagination": {"method": "multiple", "scrollers": {"p": {"method": "pagenum"}}}`

var errKilled = errors.New("killed")

// A receiver keeps pages by their ID, and the state, as a program does on disk. It is killed at one of its calls.
type receiver struct {
	stored map[string][]string
	state  []byte
	calls  int
	killAt int  // the number of the call, 0 for none
	after  bool // the call has its effect first
}

func (rc *receiver) killed(effect func() error) error {
	rc.calls++
	if rc.calls != rc.killAt {
		return effect()
	}
	if rc.after {
		if err := effect(); err != nil {
			return err
		}
	}
	return errKilled
}

func (rc *receiver) run(t *testing.T, s *store, cfg *extractor.Config) error {
	t.Helper()
	var state extractor.State
	if rc.state != nil {
		if err := json.Unmarshal(rc.state, &state); err != nil {
			t.Fatal(err)
		}
	}
	save := func(s extractor.State) (err error) {
		rc.state, err = json.Marshal(s)
		return err
	}
	state, err := extractor.Run(t.Context(), cfg, state, extractor.Options{
		Transport: s,
		Emit: func(_ context.Context, p *extractor.Page) error {
			return rc.killed(func() error {
				var records []string
				for rec := range p.Records() {
					records = append(records, p.DataType+string(rec.JSON()))
				}
				if _, again := rc.stored[p.ID()]; !again {
					rc.stored[p.ID()] = records
				}
				return nil
			})
		},
		Checkpoint: func(_ context.Context, s extractor.State) error { return rc.killed(func() error { return save(s) }) },
	})
	if err != nil {
		return err
	}
	return save(state)
}

// TestKilledAtEveryCall kills runs of jobs with positions before and after every effect that they have, resumes them, adds records,
// and runs again. Each record is delivered once.
func TestKilledAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, parallel := range []string{"1", "3"} {
		cfg, err := extractor.Parse([]byte(config(byPages, `"parallelJobs": `+parallel+`, `+positions)))
		checkError(t, err, "")
		kills := 0
		step := 1
		if testing.Short() {
			step = 9
		}
		for killAt := 1; ; killAt += step {
			stillKilled := false
			for _, after := range []bool{false, true} {
				s := &store{records: []int{3, 1, 25, 25, 7}}
				rc := &receiver{stored: make(map[string][]string), killAt: killAt, after: after}
				var want []string
				for round := range 3 {
					if err := rc.run(t, s, cfg); err != nil {
						stillKilled = true
						kills++
						if !errors.Is(err, errKilled) {
							t.Fatal(err)
						}
						if err := rc.run(t, s, cfg); err != nil {
							t.Fatal(err)
						}
					}
					for range s.records {
						want = append(want, "plain")
					}
					// Two of the next records are as old as the newest one.
					s.records = append(s.records, 25+20*round, 25+20*round, 45+20*round)
				}
				for range s.records[:len(s.records)-3] {
					want = append(want, "inc", "kids")
				}
				for range 5 { // the windows have passed
					want = append(want, "win")
				}
				var got []string
				seen := make(map[string]int)
				for _, records := range rc.stored {
					for _, rec := range records {
						kind, _, _ := strings.Cut(rec, "{")
						got = append(got, kind)
						if kind != "plain" {
							seen[rec]++
						}
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				same(t, fmt.Sprintf("records of %s parallel jobs, killed at call %d (after it: %v)", parallel, killAt, after), got, want)
				for rec, n := range seen {
					if n > 1 {
						t.Errorf("killed at call %d (after it: %v): %d times %s", killAt, after, n, rec)
					}
				}
			}
			if !stillKilled {
				break
			}
		}
		if kills < 50/step {
			t.Errorf("only %d kills", kills)
		}
	}
}

// TestWindows asserts the windows of runs on following days.
func TestWindows(t *testing.T) {
	for name, test := range map[string]struct {
		windows string
		want    [3]string
	}{
		"days":          {`"from": "1999-12-30 12:00", "step": "1 day"`, [3]string{"30T12-31T12 31T12-01T00", "01T00-02T00 02T00-02T12", "02T12-03T12 03T12-04T00"}},
		"whole days":    {`"from": "1999-12-30", "step": "1 day", "partial": false`, [3]string{"30T00-31T00 31T00-01T00", "01T00-02T00", "02T00-03T00 03T00-04T00"}},
		"with lookback": {`"from": "1999-12-31", "step": "1 day", "to": "today", "lookback": "36 hours"`, [3]string{"31T00-01T00", "31T00-01T00 01T00-02T00", "31T12-01T12 01T12-02T12 02T12-03T12 03T12-04T00"}},
		"months":        {`"from": "1999-11-30", "step": "1 month", "partial": false`, [3]string{"30T00-30T00", "", ""}},
		"months from the 31st": {
			`"from": "1999-08-31 06:00", "step": "1 month", "to": "2000-03-01", "partial": false`,
			[3]string{"31T06-30T06 30T06-31T06 31T06-30T06 30T06-31T06 31T06-31T06 31T06-29T06", "", ""},
		},
		"quarters from the 31st, goes on": {`"from": "1999-08-31", "step": "3 months", "partial": true`, [3]string{"31T00-30T00 30T00-01T00", "01T00-02T12", "02T12-04T00"}},
		"31 days are no month":            {`"from": "1999-10-31", "step": "31 days", "partial": false`, [3]string{"31T00-01T00 01T00-01T00", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u", "windows": {`+test.windows+`}, "params": {
					"w": {"function": "concat", "args": [{"function": "date", "args": ["d\\TH", {"window": "from"}]}, "-", {"function": "date", "args": ["d\\TH", {"window": "to"}]}]}}}]`)))
				checkError(t, err, "")
				var state extractor.State
				for i, want := range test.want {
					a := &clockedAPI{t: t, began: time.Now(), answers: slices.Repeat([]string{`[1]`}, 10)}
					state, err = extractor.Run(t.Context(), cfg, state, extractor.Options{Transport: a})
					checkError(t, err, "")
					var got []string
					for _, line := range a.asked {
						_, w, _ := strings.Cut(line, "w=")
						got = append(got, w)
					}
					if text := strings.Join(got, " "); text != want {
						t.Errorf("run %d asks for %s, want %s", i, text, want)
					}
					time.Sleep([]time.Duration{36 * time.Hour, 36 * time.Hour, 0}[i])
				}
			})
		})
	}
}

// TestWindowGoesOn ends a run within the second window of a row that lookback begins. It resumes in that window, at its next page.
func TestWindowGoesOn(t *testing.T) {
	t.Parallel()
	cfg, err := extractor.Parse([]byte(config(byPages, `"jobs": [{"endpoint": "win", "scroller": "p", "params": {"from": {"window": "from"}}, "windows": {"from": "2024-01-01", "to": "2024-01-01 00:01:00", "step": "20 seconds", "lookback": "40 seconds"}}]`)))
	checkError(t, err, "")
	s := &store{records: []int{21, 22, 23, 41}}
	state := extractor.State{Windows: map[string]int64{"win": dayOne + 40}}
	var saved extractor.State
	_, err = extractor.Run(t.Context(), cfg, state, extractor.Options{Transport: s, Checkpoint: func(_ context.Context, st extractor.State) error {
		saved = st
		if cp := st.Checkpoint; cp.Window == dayOne+20 && cp.Pages == 1 {
			return errKilled
		}
		return nil
	}})
	checkError(t, err, "killed")
	before := len(s.asked)
	_, err = extractor.Run(t.Context(), cfg, saved, extractor.Options{Transport: s})
	checkError(t, err, "")
	if want := fmt.Sprintf("/win?from=%d&page=2", dayOne+20); s.asked[before] != want {
		t.Errorf("the run goes on with %s, want %s", s.asked[before], want)
	}
}

// TestParallelChildren lets later children respond first. Their pages still come in order, and no more are asked at the same time than
// the configuration says.
func TestParallelChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{began: time.Now(), takes: func(uri string) time.Duration {
			if uri == "/a" {
				return 0
			}
			id, _ := strconv.Atoi(strings.Trim(uri, "/c?page=2"))
			return time.Duration(10-id) * time.Second
		}}
		cfg, err := extractor.Parse([]byte(config(`"pagination": {"method": "multiple", "scrollers": {"p": {"method": "response.url"}}}`, `"jobs": [{"endpoint": "a", "parallelChildren": 3, "children": [{"endpoint": "c/{id}", "dataType": "c", "scroller": "p", "placeholders": {"id": "id"}}]}]`)))
		checkError(t, err, "")
		var got []string
		_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: api, Emit: func(_ context.Context, p *extractor.Page) error {
			for rec := range p.Records() {
				got = append(got, string(rec.JSON()))
			}
			return nil
		}})
		checkError(t, err, "returned 400")
		same(t, "records", got, []string{
			`{"id":3}`, `{"id":4}`, `{"id":5}`, `{"id":6}`, `{"id":7}`, `{"v":"/c/3","parent_id":"3"}`, `{"v":"/c/3?p=2","parent_id":"3"}`,
			`{"v":"/c/4","parent_id":"4"}`, `{"v":"/c/5","parent_id":"5"}`,
		})
		slices.Sort(api.asked) // several are sent at once
		same(t, "requests", api.asked, []string{"0 /a", "0 /c/3", "0 /c/4", "0 /c/5", "14 /c/6", "14 /c/7", "7 /c/3?p=2"})
		if api.most != 3 {
			t.Errorf("got %d requests at the same time, want 3", api.most)
		}
	})
}

// TestWaitingIsNotWork lets a parallel child wait for the previous one for longer than forceStop allows it to work.
func TestWaitingIsNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := extractor.Parse([]byte(config(`"pagination": {"method": "multiple", "scrollers": {"p": {"method": "pagenum", "forceStop": {"time": 20, "pages": 2}}}}`, `"jobs": [{"endpoint": "a", "parallelChildren": 2, "children": [{"endpoint": "c/{id}", "dataType": "c", "scroller": "p", "placeholders": {"id": "id"}}]}]`)))
		checkError(t, err, "")
		var mu sync.Mutex
		var asked []string
		_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			asked = append(asked, r.URL.RequestURI())
			mu.Unlock()
			w := httptest.NewRecorder()
			switch r.URL.Path {
			case "/a":
				fmt.Fprint(w, `[{"id": 1}, {"id": 2}]`)
			case "/c/1":
				time.Sleep(30 * time.Second)
				fallthrough
			default:
				fmt.Fprintf(w, `[%q]`, r.URL.RequestURI())
			}
			return w.Result(), nil
		})})
		checkError(t, err, "")
		slices.Sort(asked)
		same(t, "requests", asked, []string{"/a", "/c/1?page=1", "/c/2?page=1", "/c/2?page=2"})
	})
}

// A slowAPI responds to each path after a different time.
type slowAPI struct {
	began     time.Time
	takes     func(uri string) time.Duration
	mu        sync.Mutex
	now, most int
	asked     []string
}

func (a *slowAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	uri := r.URL.RequestURI()
	a.mu.Lock()
	a.now++
	a.most = max(a.most, a.now)
	a.asked = append(a.asked, fmt.Sprintf("%g %s", time.Since(a.began).Seconds(), uri))
	a.mu.Unlock()
	select {
	case <-time.After(a.takes(uri)):
	case <-r.Context().Done():
	}
	a.mu.Lock()
	a.now--
	a.mu.Unlock()
	w := httptest.NewRecorder()
	switch uri {
	case "/a":
		fmt.Fprint(w, `[{"id": 3}, {"id": 4}, {"id": 5}, {"id": 6}, {"id": 7}]`)
	case "/c/3":
		fmt.Fprintf(w, `{"d": [{"v": %q}], "next_page": "?p=2"}`, uri)
	case "/c/6":
		w.WriteHeader(http.StatusBadRequest)
	default:
		fmt.Fprintf(w, `{"d": [{"v": %q}]}`, uri)
	}
	return w.Result(), r.Context().Err()
}

// TestParallelJobs runs jobs at the same time, and ends all with the first error.
func TestParallelJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{began: time.Now(), takes: func(uri string) time.Duration {
			return map[string]time.Duration{"/c/1": 5 * time.Second, "/c/2": time.Second, "/c/6": 6500 * time.Millisecond}[uri] + time.Second
		}}
		cfg, err := extractor.Parse([]byte(config("", `"parallelJobs": 2, "jobs": [{"endpoint": "c/1"}, {"endpoint": "c/2"}, {"endpoint": "c/6"}, {"endpoint": "c/8"}, {"endpoint": "c/9"}, {"endpoint": "c/10"}, {"endpoint": "c/11"}, {"endpoint": "c/12"}]`)))
		checkError(t, err, "")
		var got []string
		state, err := extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: api, Emit: func(_ context.Context, p *extractor.Page) error {
			got = append(got, p.DataType)
			return nil
		}})
		checkError(t, err, "c/6 returned 400")
		slices.Sort(api.asked) // two are sent at once
		same(t, "requests", api.asked, []string{"0 /c/1", "0 /c/2", "2 /c/6", "6 /c/8", "7 /c/9", "8 /c/10", "9 /c/11"})
		same(t, "pages", got, []string{"c/2", "c/1", "c/8", "c/9", "c/10"})
		// A resumed run asks for the jobs that are not done.
		api.asked = nil
		_, err = extractor.Run(t.Context(), cfg, state, extractor.Options{Transport: api})
		checkError(t, err, "c/6 returned 400")
		if asked := strings.Join(api.asked, " "); strings.Contains(asked, "/c/8") || strings.Contains(asked, "/c/10") || !strings.Contains(asked, "/c/12") {
			t.Errorf("the second run asks for %s", asked)
		}
	})
}

// TestRateLimit counts the requests in fake time.
func TestRateLimit(t *testing.T) {
	const job = `"parallelJobs": 4, "jobs": [{"endpoint": "1"}, {"endpoint": "2"}, {"endpoint": "3"}, {"endpoint": "4"}, {"endpoint": "5"}]`
	for name, test := range map[string]struct {
		api     string
		headers string
		want    []float64
		err     string
	}{
		"a request a second":   {`"rateLimit": {"requests": 1}`, "", []float64{0, 1, 2, 3, 4}, ""},
		"three in ten, bursts": {`"rateLimit": {"requests": 3, "seconds": 10, "burst": 3}`, "", []float64{0, 0, 0, 3.333333333, 6.666666666}, ""},
		"seconds of a server":  {`"rateLimit": {"requests": 1, "remaining": "Left", "reset": "Reset"}`, "Left: 0\nReset: 30\n", []float64{0, 30, 60, 90, 120}, ""},
		"time of a server":     {`"rateLimit": {"requests": 1, "remaining": "Left", "reset": "Reset"}`, "Left: 0\nReset: 946684860\n", []float64{0, 60, 61, 62, 63}, ""},
		"more remain":          {`"rateLimit": {"requests": 100, "remaining": "Left", "reset": "Reset"}`, "Left: 1\nReset: 30\n", []float64{0, 0.01, 0.02, 0.03, 0.04}, ""},
		"too long a pause":     {`"rateLimit": {"requests": 1, "remaining": "Left", "reset": "Reset"}`, "Left: 0\nReset: 90000\n", []float64{0}, "the server accepts no request for 25h0m0s, more than 24h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, err := clocked(t, config(test.api, strings.Replace(job, "4", "1", 1)), 0, slices.Repeat([]string{test.headers + "[1]"}, 5)...)
				checkError(t, err, test.err)
				var at []string
				for i, line := range asked {
					at = append(at, fmt.Sprintf("%g /%d", test.want[min(i, len(test.want)-1)], i+1))
					if i >= len(test.want) || line != at[i] {
						t.Errorf("requests %s, want them at %v", asked, test.want)
						break
					}
				}
			})
		})
	}
}

// TestJitter varies pauses within their bounds.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := make(map[string]bool)
		for range 20 {
			asked, err := clocked(t, config(`"retryConfig": {"jitter": 0.5}`, `"jobs": [{"endpoint": "u"}]`), 0, "500 ", "500 Retry-After: 10\n", "[]")
			checkError(t, err, "")
			var at [3]float64
			for i, line := range asked {
				number, _, _ := strings.Cut(line, " ")
				at[i], _ = strconv.ParseFloat(number, 64)
			}
			first, second := at[1]-at[0], at[2]-at[1]
			if first < 0.5 || first > 1.5 || second < 10 || second > 15 {
				t.Fatalf("pauses of %g and %g seconds", first, second)
			}
			pauses[fmt.Sprint(first)], pauses[fmt.Sprint(second)] = true, true
		}
		if len(pauses) < 20 {
			t.Errorf("pauses %v", slices.Sorted(maps.Keys(pauses)))
		}
	})
}
