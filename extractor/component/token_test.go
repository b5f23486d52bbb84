package component_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/extractor/component"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// A shop gives a new refresh token for each old one, and accepts each once.
type shop struct {
	mu sync.Mutex
	// valid is the number of the refresh token that works, asked has all received tokens.
	valid int
	asked []string
	// since are the values of the parameter "since" of the requests that succeeded.
	since []string
	// serve, if not nil, handles the requests for orders.
	serve func(http.ResponseWriter, *http.Request)
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer, valid := s.serve, s.valid
	if r.URL.Path == "/token" {
		got := r.FormValue("refresh_token")
		s.asked = append(s.asked, got)
		if got != fmt.Sprint("refresh-", s.valid) {
			w.WriteHeader(http.StatusBadRequest)
		} else {
			s.valid++
			fmt.Fprintf(w, `{"access_token":"access-%d","token_type":"bearer","refresh_token":"refresh-%[1]d"}`, s.valid)
		}
		s.mu.Unlock()
		return
	}
	if answer == nil {
		s.since = append(s.since, r.URL.Query().Get("since"))
	}
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	if r.Header.Get("Authorization") != fmt.Sprint("Bearer access-", valid) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	fmt.Fprint(w, `[{"id":1}]`)
}

func (s *shop) set(answer func(http.ResponseWriter, *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve = answer
}

// TestRefreshTokenIsNeverLost has a server that takes each refresh token once. The token that it gave last is used next, even if the run in
// between has failed, or the platform was closed in the middle of it. All else in the state stays as it was before such a run.
func TestRefreshTokenIsNeverLost(t *testing.T) {
	api := new(shop)
	apiServer := httptest.NewServer(api)
	defer apiServer.Close()
	dir := t.TempDir()
	var server *platform.Server
	var front *httptest.Server
	var client *storageapi.Client
	open := func() {
		t.Helper()
		var err error
		server, err = platform.Open(dir, platform.Options{Token: token, Components: []platform.Component{{
			Component: storageapi.Component{ID: "generic-extractor", Type: "extractor"}, Runner: component.New(component.Options{}),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		front = httptest.NewServer(server)
		if client, err = storageapi.New(storageapi.Options{URL: front.URL, QueueURL: front.URL, Token: token}); err != nil {
			t.Fatal(err)
		}
	}
	shut := func() {
		t.Helper()
		front.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	open()
	defer func() { shut() }()
	ctx := t.Context()
	conf, err := client.CreateConfiguration(ctx, "generic-extractor", storageapi.ConfigurationCreate{Name: "Shop", Configuration: json.RawMessage(fmt.Sprintf(`{"parameters":{
		"api":{"baseUrl":%q,"retryConfig":{"maxRetries":0},"authentication":{"type":"oauth2","grant":"refresh_token","tokenUrl":"token","clientId":"me","refreshToken":{"attr":"#refresh"}}},
		"config":{"#refresh":"refresh-0","outputBucket":"shop","jobs":[{"endpoint":"orders","params":{"since":{"time":"previousStart"}}}]}}}`, apiServer.URL+"/"))})
	if err != nil {
		t.Fatal(err)
	}
	start := func() *storageapi.QueueJob {
		t.Helper()
		job, err := client.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: "generic-extractor", Config: string(conf.ID)})
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	wait := func(job *storageapi.QueueJob) error {
		_, err := client.WaitForQueueJob(ctx, job.ID)
		return err
	}
	// state returns the state without its tokens, and the only token.
	state := func() (rest, refresh string) {
		t.Helper()
		c, err := client.Configuration(ctx, "generic-extractor", string(conf.ID))
		if err != nil {
			t.Fatal(err)
		}
		members := make(map[string]json.RawMessage)
		tokens := make(map[string]string)
		if err := json.Unmarshal(c.State, &members); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(members["tokens"], &tokens); err != nil || len(tokens) != 1 {
			t.Fatalf("tokens of the state %s: %v", c.State, err)
		}
		delete(members, "tokens")
		for _, refresh = range tokens {
		}
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), refresh
	}

	// The first run fails, so there is nothing but the token.
	api.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if err := wait(start()); err == nil {
		t.Fatal("a run has succeeded without an answer")
	}
	if rest, refresh := state(); rest != `{"time":{"previousStart":0}}` || refresh != "refresh-1" {
		t.Errorf("after the first run the state is %s with %s", rest, refresh)
	}
	api.set(nil)
	if err := wait(start()); err != nil {
		t.Fatal(err)
	}
	committed, refresh := state()
	if refresh != "refresh-2" || committed == `{"time":{"previousStart":0}}` {
		t.Errorf("after a run that succeeded the state is %s with %s", committed, refresh)
	}
	// One fails after it has got a token.
	api.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if err := wait(start()); err == nil {
		t.Fatal("a run has succeeded without an answer")
	}
	if rest, refresh := state(); rest != committed || refresh != "refresh-3" {
		t.Errorf("after a run that failed the state is %s with %s, want %s", rest, refresh, committed)
	}
	// The platform is closed while a request waits for its response.
	begun := make(chan struct{})
	var once sync.Once
	api.set(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(begun) })
		<-r.Context().Done()
	})
	job := start()
	<-begun
	shut()
	api.set(nil)
	open()
	if err := wait(job); err != nil {
		t.Errorf("the job after the platform was opened again: %v", err)
	}
	if err := wait(start()); err != nil {
		t.Error(err)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	if want := []string{"refresh-0", "refresh-1", "refresh-2", "refresh-3", "refresh-4", "refresh-5"}; !slices.Equal(api.asked, want) {
		t.Errorf("the server was asked with %q, want %q", api.asked, want)
	}
	if len(api.since) != 3 || api.since[0] != "0" || !strings.Contains(committed, `"previousStart":`+api.since[1]) {
		t.Errorf("orders were asked for since %q", api.since)
	}
}
