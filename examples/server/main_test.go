package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/stream/streamapi"
)

// The test binary stands in for the program when this variable is set.
const asProgram = "SERVER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a running server.
type process struct {
	*proctest.Process
	t    *testing.T
	url  string // of the source that the server has made
	base string // where events are sent to
	api  string // of the API
	dir  string
}

// start returns when the server has printed its address.
func start(t *testing.T, env ...string) *process {
	t.Helper()
	p := &process{Process: proctest.Run(t, proctest.Self(slices.Concat(
		[]string{asProgram + "=1", "FOREBAY_ADDR=127.0.0.1:0", "FOREBAY_API_ADDR=127.0.0.1:0"}, env)...)), t: t}
	ready := p.Line()
	m := regexp.MustCompile(`^ready api=(\S+) ingest=(\S+)$`).FindStringSubmatch(ready)
	if m == nil {
		t.Fatalf("the first line is %q", ready)
	}
	p.api, p.base = "http://"+m[1], "http://"+m[2]
	for i := range env {
		if d, ok := strings.CutPrefix(env[i], "FOREBAY_DIR="); ok {
			p.dir = d
		}
		if strings.HasPrefix(env[i], "FOREBAY_SOURCE=") {
			p.Line()
			p.url = strings.TrimPrefix(p.Line(), "Post events to ")
		}
	}
	return p
}

func (p *process) request(method, url, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// stop ends the server as a service manager does and checks that it ends well.
func (p *process) stop() {
	p.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := errors.Join(p.Signal(syscall.SIGTERM), p.Err()); err != nil {
		p.t.Fatal(err)
	}
}

// eachServer runs a test with both servers of events.
func eachServer(t *testing.T, test func(t *testing.T, server string)) {
	for _, netHTTP := range []string{"false", "true"} {
		t.Run("net-http="+netHTTP, func(t *testing.T) { test(t, "FOREBAY_NET_HTTP="+netHTTP) })
	}
}

func TestServer(t *testing.T) { eachServer(t, testServer) }

func testServer(t *testing.T, server string) {
	env := []string{"FOREBAY_DIR=" + t.TempDir(), "FOREBAY_LOG_FORMAT=json", "FOREBAY_SOURCE=shop", server}
	p := start(t, env...)
	if !strings.Contains(p.url, "/stream/1/shop/") {
		t.Errorf("address is %q", p.url)
	}
	if status, body := p.request("GET", p.base+"/health-check", ""); status != 200 || body != "OK" {
		t.Errorf("health check: %d %s", status, body)
	}
	if status, answer := p.request("POST", p.url, `{"kind":"signup","user":{"id":42}}`); status != 200 || answer != "OK" {
		t.Errorf("event: %d %s", status, answer)
	}
	if status, answer := p.request("POST", p.url, `{"kind":"click"}`); status != 422 || !strings.Contains(answer, `\"user\"`) {
		t.Errorf("event without a user: %d %s", status, answer)
	}
	if status, answer := p.request("POST", p.url+"x", "{}"); status != 404 || !strings.Contains(answer, "stream.in.noSourceFound") {
		t.Errorf("wrong secret: %d %s", status, answer)
	}
	p.stop()
	logs := p.Logs()
	for sink, rows := range map[string]int{"raw": 2, "events": 1} {
		want := fmt.Sprintf(`"id":"shop/%s","accepted":%d,"local":0,"staging":0,"table":%[2]d,"expired":0`, sink, rows)
		if !strings.Contains(logs, want) {
			t.Errorf("%s is not in the log:\n%s", want, logs)
		}
	}
	secret := p.url[strings.LastIndexByte(p.url, '/')+1:]
	if len(secret) < 48 || strings.Contains(logs, secret) {
		t.Errorf("secret %q is short or logged:\n%s", secret, logs)
	}

	again := start(t, env...)
	if !strings.HasSuffix(again.url, "/stream/1/shop/"+secret) {
		t.Errorf("the address changed from %s to %s", p.url, again.url)
	}
	again.stop()
}

// A stop in the middle of traffic. Acknowledged events are in the tables, once, and nothing else is.
func TestStopUnderLoad(t *testing.T) { eachServer(t, testStopUnderLoad) }

func testStopUnderLoad(t *testing.T, server string) {
	data := t.TempDir()
	p := start(t, "FOREBAY_DIR="+data, "FOREBAY_SOURCE=web", server)
	const clients = 8
	var mu sync.Mutex
	acked, unknown := map[string]bool{}, map[string]bool{}
	running := make(chan struct{}, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", c, i)
				resp, err := http.Post(p.url, "application/json", strings.NewReader(`{"user":{"id":"`+id+`"}}`))
				mu.Lock()
				if err == nil && resp.StatusCode == http.StatusOK {
					acked[id] = true
				} else {
					unknown[id] = true
				}
				mu.Unlock()
				if err != nil {
					return // the server no longer listens
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if i == 20 {
					running <- struct{}{}
				}
			}
		})
	}
	for range clients {
		<-running
	}
	p.stop()
	wg.Wait()

	stored := map[string]int{}
	for row, err := range dir.Tables(filepath.Join(data, "tables")).Rows("in.c-web.events") {
		if err != nil {
			t.Fatal(err)
		}
		stored[strings.Trim(row[2], `"`)]++
	}
	for id := range acked {
		if stored[id] != 1 {
			t.Errorf("acknowledged event %s is stored %d times", id, stored[id])
		}
	}
	for id, n := range stored {
		if n != 1 || !acked[id] && !unknown[id] {
			t.Errorf("event %q is stored %d times", id, n)
		}
	}
	if len(acked) < clients*20 {
		t.Errorf("only %d events were acknowledged", len(acked))
	}
}

func TestParseConfig(t *testing.T) {
	env := map[string]string{
		"FOREBAY_DIR": "env-dir", "FOREBAY_ADDR": ":1", "FOREBAY_LOG_LEVEL": "debug", "FOREBAY_SHUTDOWN_TIMEOUT": "5s",
		"FOREBAY_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8",
	}
	cfg, err := parseConfig([]string{"-addr", ":2", "-project-id", "7"}, func(name string) string { return env[name] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Addr != ":2" || cfg.Dir != "env-dir" || cfg.Stream.ProjectID != 7 || cfg.LogLevel != slog.LevelDebug ||
		cfg.ShutdownTimeout != 5*time.Second || len(cfg.Stream.TrustedProxies) != 2 {
		t.Errorf("config is %+v", cfg)
	}

	env = map[string]string{"FOREBAY_PROJECT_ID": "one"} // the flag wins, so the variable is not read
	if cfg, err = parseConfig([]string{"-project-id", "7"}, func(name string) string { return env[name] }, io.Discard); err != nil || cfg.Stream.ProjectID != 7 {
		t.Errorf("project is %d, %v", cfg.Stream.ProjectID, err)
	}
	env["FOREBAY_TRUSTED_PROXIES"] = "10.0.0.0/8,proxy"
	_, err = parseConfig([]string{"-log-format", "xml", "-max-body-bytes", "1", "-source", "My_Shop", "-merge-to", "-1", "-extend", "-no-header", "stray"},
		func(name string) string { return env[name] }, io.Discard)
	for _, part := range []string{
		`"one" of FOREBAY_PROJECT_ID`, `of FOREBAY_TRUSTED_PROXIES: "proxy" is neither`, "-log-format", "-max-body-bytes is 1", `-source is "My_Shop"`, `"stray"`, "-merge-to is -1", "-no-header excludes -extend",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not in the error: %v", part, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "-project-id is 0") {
		t.Errorf("one problem is told twice: %v", err)
	}
	var usage strings.Builder
	if _, err := parseConfig([]string{"-log-level", "loud"}, os.Getenv, &usage); err == nil || !strings.Contains(err.Error(), `"loud" for flag -log-level`) || usage.Len() > 0 {
		t.Errorf("an error of a flag is told twice: %v, %s", err, usage.String())
	}
	if _, err := parseConfig([]string{"-h"}, os.Getenv, &usage); !errors.Is(err, flag.ErrHelp) || !strings.Contains(usage.String(), "-log-level") {
		t.Errorf("-h gives %v, %s", err, usage.String())
	}
	if _, err := parseConfig([]string{"-project-id", "0"}, os.Getenv, io.Discard); err == nil || !strings.Contains(err.Error(), "-project-id is 0") {
		t.Errorf("project 0: %v", err)
	}
}

// call sends a request to the API with the token that the server has made.
func (p *process) call(method, path, body string) map[string]any {
	p.t.Helper()
	token, err := os.ReadFile(filepath.Join(p.dir, "token"))
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.api+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-StorageApi-Token", strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode >= 400 {
		p.t.Fatalf("%s %s: got %d %v %v, want a status below 400 and JSON", method, path, resp.StatusCode, answer, err)
	}
	return answer
}

// TestAPI creates a source over the API, sends an event, kills the server without a word and finds everything again.
func TestAPI(t *testing.T) {
	env := []string{"FOREBAY_DIR=" + t.TempDir(), "FOREBAY_PROJECT_ID=7", "FOREBAY_BRANCH_ID=3", "FOREBAY_INGEST_PUBLIC_URL=https://in.example.com"}
	p := start(t, env...)
	task := p.call("POST", "/v1/branches/default/sources", `{"type":"http","name":"Web","sinks":[{"type":"table","name":"Events","table":{
		"type":"`+streamapi.DefaultTableType+`","tableId":"in.c-web.events","mapping":{"columns":[{"type":"body","name":"body"}]}}}]}`)
	for task["isFinished"] != true {
		task = p.call("GET", strings.TrimPrefix(task["url"].(string), p.api), "")
	}
	if task["status"] != "success" {
		t.Fatalf("task: %v", task)
	}
	address := p.call("GET", "/v1/branches/3/sources/web", "")["http"].(map[string]any)["url"].(string)
	path, ok := strings.CutPrefix(address, "https://in.example.com/stream/7/web/")
	if !ok {
		t.Fatalf("address is %s", address)
	}
	if status, answer := p.request("POST", p.base+"/stream/7/web/"+path, `{"a":1}`); status != 200 {
		t.Errorf("event: %d %s", status, answer)
	}
	p.Kill()

	p = start(t, env...)
	if status, answer := p.request("POST", p.base+"/stream/7/web/"+path, `{"a":2}`); status != 200 {
		t.Errorf("event after the kill: %d %s", status, answer)
	}
	p.stop()
	n := 0
	for _, err := range dir.Tables(filepath.Join(p.dir, "tables")).Rows("in.c-web.events") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("got %d rows, want 2", n)
	}
}

// A path that a mux would clean must not get a redirect, whose Location would contain the secret.
func TestSecretIsNotRedirected(t *testing.T) {
	p := start(t, "FOREBAY_DIR="+t.TempDir(), "FOREBAY_SOURCE=web")
	secret := p.url[strings.LastIndexByte(p.url, '/')+1:]
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"//stream/1/web/" + secret, "/stream//1/web/" + secret, "/x/../stream/1/web/" + secret, "/stream/1/web/" + secret + "/"} {
		resp, err := client.Post(p.base+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 404 || strings.Contains(fmt.Sprint(resp.Header, string(body)), secret) {
			t.Errorf("%s: got %d %v %s, want resp.StatusCode == 404 and !strings.Contains(fmt.Sprint(resp.Header, string(body)), secret)", path, resp.StatusCode, resp.Header, body)
		}
	}
	client.CloseIdleConnections()
	p.stop()
}

// A source that cannot be is refused before anything is made for it.
func TestInvalidSourceLeavesNothingBehind(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1", "FOREBAY_DIR="+data, "FOREBAY_SOURCE=../x")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), `"../x"`) {
		t.Errorf("ended with %v: %s", err, out)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data directory: %v", err)
	}
}

// TestTableOptions checks that with the flags for tables a sink over the API has typed rows in folders of days, and its table grows.
func TestTableOptions(t *testing.T) {
	p := start(t, "FOREBAY_DIR="+t.TempDir(), "FOREBAY_EXTEND=true", "FOREBAY_PARTITION_BY=at", "FOREBAY_MERGE_TO=1000000", "FOREBAY_SOURCE=shop")
	wait := func(task map[string]any) {
		t.Helper()
		for task["isFinished"] != true {
			task = p.call("GET", strings.TrimPrefix(task["url"].(string), p.api), "")
		}
		if task["status"] != "success" {
			t.Fatalf("task: %v", task)
		}
	}
	columns := func(more string) string {
		return `{"columns":[{"type":"uuid","name":"id","dataType":"uuid"},{"type":"path","name":"at","path":"at","dataType":"timestamp"}` + more + `]}`
	}
	sink := "/v1/branches/default/sources/shop/sinks"
	wait(p.call("POST", sink, `{"type":"table","name":"Days","table":{"type":"`+streamapi.DefaultTableType+`","tableId":"in.c-shop.days","mapping":`+columns("")+`}}`))
	event := func(day string) {
		t.Helper()
		if status, answer := p.request("POST", p.url, `{"user":{"id":1},"at":"`+day+`T12:00:00Z","n":7}`); status != 200 {
			t.Errorf("event: %d %s", status, answer)
		}
	}
	event("2026-11-21")
	wait(p.call("PATCH", sink+"/days", `{"table":{"mapping":`+columns(`,{"type":"path","name":"n","path":"n","dataType":"int64"}`)+`}}`))
	event("2026-11-22")
	p.stop()
	tables := dir.Tables(filepath.Join(p.dir, "tables"))
	var rows []string
	for row, err := range tables.Cells("in.c-shop.days") {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("%s %s %t", row[1], row[2], row[2] == nil))
	}
	slices.Sort(rows)
	if want := []string{"2026-11-21T12:00:00.000000Z  true", "2026-11-22T12:00:00.000000Z 7 false"}; !slices.Equal(rows, want) {
		t.Errorf("rows are %q, want %q", rows, want)
	}
	for _, day := range []string{"dt=2026-11-21", "dt=2026-11-22"} {
		if _, err := os.Stat(filepath.Join(tables.Path("in.c-shop.days"), day)); err != nil {
			t.Error(err)
		}
	}
}
