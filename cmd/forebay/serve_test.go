package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/forebay/forebay/internal/proctest"
)

// serving is a process that serves.
type serving struct {
	*proctest.Process
	t *testing.T
	// addr is where each of its servers listens, by name.
	addr map[string]string
}

// serve returns when the server accepts requests, on free ports.
func serve(t *testing.T, env []string, args ...string) *serving {
	t.Helper()
	return start(t, env, "serve", args...)
}

// start is serve for a verb.
func start(t *testing.T, env []string, verb string, args ...string) *serving {
	t.Helper()
	s := launch(t, env, verb, args...)
	s.awaitReady()
	return s
}

// launch is start that does not wait for awaitReady.
func launch(t *testing.T, env []string, verb string, args ...string) *serving {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{
		verb, "-addr", "127.0.0.1:0", "-api-addr", "127.0.0.1:0", "-otlp-grpc", "127.0.0.1:0", "-otlp-http", "127.0.0.1:0",
	}, args...)...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	return begin(t, cmd)
}

// begin starts the process of a server. It does not wait for awaitReady.
func begin(t *testing.T, cmd *exec.Cmd) *serving {
	t.Helper()
	return &serving{Process: proctest.Run(t, cmd), t: t, addr: map[string]string{}}
}

// awaitReady waits for the line that has the addresses of the server.
func (s *serving) awaitReady() {
	s.t.Helper()
	ready := s.Line()
	if !strings.HasPrefix(ready, "ready ") {
		s.t.Fatalf("not ready: %q\n%s", ready, s.Logs())
	}
	for _, m := range regexp.MustCompile(`(\S+)=(\S+)`).FindAllStringSubmatch(ready, -1) {
		s.addr[m[1]] = m[2]
	}
}

// stop ends the server as a service manager does. Every row is then in its table.
func (s *serving) stop() {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := errors.Join(s.Signal(syscall.SIGTERM), s.Err()); err != nil {
		s.t.Fatal(err)
	}
}

// hangUp asks the server to read its file again.
func (s *serving) hangUp() {
	s.t.Helper()
	if err := s.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
}

// waitLog waits for the nth line of the log with a text.
func (s *serving) waitLog(text string, n int) {
	s.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); strings.Count(s.Logs(), text) < n; runtime.Gosched() {
		if time.Now().After(deadline) {
			s.t.Fatalf("%q is not logged %d times:\n%s", text, n, s.Logs())
		}
	}
}

func (s *serving) post(server, path, body string, header ...string) (int, string) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr[server]+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

const (
	webSecret  = "web-secret-web-secret-web-secret"
	otlpSecret = "otlp-secret-otlp-secret-otlp-secret"
)

func secrets() []string { return []string{"WEB_SECRET=" + webSecret, "OTLP_SECRET=" + otlpSecret} }

// write replaces the configuration file as an editor does.
func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// The server of a file accepts events and telemetry on all its addresses, and keeps the secrets out of its log.
func TestServeFile(t *testing.T) {
	folder := t.TempDir()
	file, db := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db")
	write(t, file, `
target: sqlite:`+db+`
dir: `+filepath.Join(folder, "data")+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    sinks: [{id: events, table: events, columns: [{name: body, type: body}]}]
  - id: telemetry
    type: otlp
    secret: ${OTLP_SECRET}
    sinks: [{id: logs, table: logs, preset: logs}]
`)
	s := serve(t, secrets(), "-config", file)
	for range 3 {
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, `{"a":1}`); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, text)
		}
	}
	if status, _ := s.post("ingest", "/stream/1/web/"+webSecret+"x", `{}`); status != http.StatusNotFound {
		t.Errorf("a wrong secret is answered %d", status)
	}
	log := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"over HTTP"}}]}]}]}`
	if status, text := s.post("otlp-http", "/v1/logs", log, "Authorization", "Bearer "+otlpSecret); status != http.StatusOK {
		t.Errorf("OTLP over HTTP is answered %d %s", status, text)
	}
	conn, err := grpc.NewClient(s.addr["otlp-grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	logs := plog.NewLogs()
	logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr("over gRPC")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+otlpSecret)
	if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(logs)); err != nil {
		t.Errorf("OTLP over gRPC: %v", err)
	}
	if status, text := s.post("api", "/v1/branches/default/sources", `{}`); status != http.StatusNotFound || !strings.Contains(text, "configuration file") {
		t.Errorf("the API is answered %d %s", status, text)
	}
	resp, err := http.Get("http://" + s.addr["api"] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(text), "forebay_rows_accepted_total") {
		t.Errorf("no metrics:\n%s", text)
	}
	s.stop()
	if events, logs := rowsOf(t, db, "events"), rowsOf(t, db, "logs"); events != 3 || logs != 2 {
		t.Errorf("got %d events and %d logs, want 3 and 2\n%s", events, logs, s.Logs())
	}
	if text := s.Logs(); strings.Contains(text, webSecret) || strings.Contains(text, otlpSecret) {
		t.Errorf("a secret is logged:\n%s", text)
	}
}

// Without sources in a file the Stream API manages them, and -source makes one to try.
func TestServeAPI(t *testing.T) {
	folder := t.TempDir()
	db := filepath.Join(folder, "events.db")
	s := serve(t, []string{"FOREBAY_TARGET=sqlite:" + db}, "-source", "web", "-dir", filepath.Join(folder, "data"), "-token", "the-token")
	if status, text := s.post("ingest", sourceAddress(t, s, "the-token"), `{"user":{"id":42}}`); status != http.StatusOK {
		t.Fatalf("answered %d %s", status, text)
	}
	s.hangUp()
	s.waitLog("nothing to reload", 1)
	s.stop()
	if n := rowsOf(t, db, `"in.c-web.events"`); n != 1 {
		t.Errorf("got %d rows, want 1\n%s", n, s.Logs())
	}
}

// The commands of docs/cluster.md that create a source do so as they are, and the address that the last one shows accepts an event.
func TestCommandsOfTheClusterPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, commands, ok := strings.Cut(string(page), "Create a source on any node, and all nodes accept its events:\n\n```sh\n")
	commands, _, ok2 := strings.Cut(commands, "```\n")
	if !ok || !ok2 {
		t.Fatal("docs/cluster.md does not show how to create a source")
	}
	s := serve(t, nil, "-dir", t.TempDir(), "-token", "the-token")
	commands = strings.ReplaceAll(strings.ReplaceAll(commands, "127.0.0.1:8081", s.addr["api"]), "curl -H", "curl -sSf -H")
	create, show, ok := strings.Cut(commands, "\ncurl -sSf -H \"$T\" $A/shop")
	if !ok {
		t.Fatalf("the commands do not show the source:\n%s", commands)
	}
	run := func(commands string) (string, error) {
		shell := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
		shell.Env = append(os.Environ(), "TOKEN=the-token")
		out, err := shell.CombinedOutput()
		return string(out), err
	}
	if out, err := run(create); err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	setup, _, _ := strings.Cut(create, "\n")
	var out string
	eventually(t, "the task creates the source", func() (err error) {
		out, err = run(setup + "\ncurl -sSf -H \"$T\" $A/shop" + show)
		return err
	})
	address := regexp.MustCompile(`/stream/1/shop/[^"]+`).FindString(out)
	if status, text := s.post("ingest", address, `{"user":{"id":42}}`); status != http.StatusOK {
		t.Errorf("an event to %q: got %d %s, want 200\n%s", address, status, text, out)
	}
	s.stop()
}

// sourceAddress asks the Stream API for the path that events of the source web are sent to.
func sourceAddress(t *testing.T, s *serving, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr["api"]+"/v1/branches/default/sources/web", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-StorageApi-Token", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`"url":\s*"http://[^/]+(/stream/1/web/[^"]+)"`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("no address in %s", text)
	}
	return m[1]
}

// A configuration is reloaded while a client sends without a pause. Every event that was confirmed is in the tables once, a wrong file
// changes nothing, and a setting that cannot change is named.
func TestReloadUnderLoad(t *testing.T) {
	folder := t.TempDir()
	file, db := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db")
	config := func(column, more string) string {
		return `
target: sqlite:` + db + `
dir: ` + filepath.Join(folder, "data") + `
min-import-interval: 1s
` + more + `
sources:
  - id: web
    secret: ${WEB_SECRET}
    settings: {upload: {interval: 1s}, import: {interval: 1s}}
    sinks:
      - id: events
        table: events
        extend: true
        columns:
          - {name: n, type: path, path: n, dataType: string, required: true}
          ` + column + `
`
	}
	write(t, file, config("", ""))
	s := serve(t, secrets(), "-config", file)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var mu sync.Mutex
	sent := 0
	confirmed := make(chan struct{})
	const senders = 4
	for c := range senders {
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				status, text := s.post("ingest", "/stream/1/web/"+webSecret, fmt.Sprintf(`{"n":"%d-%d","extra":%d}`, c, i, i))
				if status != http.StatusOK {
					t.Errorf("event %d is answered %d %s", i, status, text)
					stop()
					return
				}
				mu.Lock()
				sent++
				mu.Unlock()
				select {
				case confirmed <- struct{}{}:
				default:
				}
			}
		})
	}
	reload := func(text, want string, times int) {
		t.Helper()
		write(t, file, text)
		s.hangUp()
		s.waitLog(want, times)
	}
	extra := func(i int) string {
		return fmt.Sprintf("- {name: extra%d, type: path, path: extra, dataType: int64}", i)
	}
	const good = 4
	for i := range good {
		reload(config(extra(i), ""), "added=[] changed=[web] removed=[]", i+1)
		for range senders + 1 { // at least one of them was sent after the reload
			select {
			case <-confirmed:
			case <-ctx.Done():
			}
		}
		reload(config("- {name: broken, type: pth}", ""), "configuration not reloaded", 2*i+1)
		reload(config(extra(i), "max-connections: 77"), "cannot change while the server runs: max-connections", i+1)
	}
	// The table refuses another type, so nothing of the file counts, also not the new source before it.
	other := strings.Replace(config("", ""), "sources:\n", "sources:\n  - {id: first, secret: \"${WEB_SECRET}\", sinks: [{id: s, table: first, columns: [{name: b, type: body}]}]}\n", 1)
	reload(strings.Replace(other, "path: n, dataType: string", "path: extra, dataType: int64", 1), "configuration not reloaded", 2*good+1)
	if status, _ := s.post("ingest", "/stream/1/first/"+webSecret, `{}`); status != http.StatusNotFound {
		t.Errorf("the source of a refused file answers %d", status)
	}
	reload(other, "added=[first] changed=[web] removed=[]", 1)
	if status, text := s.post("ingest", "/stream/1/first/"+webSecret, `{}`); status != http.StatusOK {
		t.Errorf("the new source answers %d %s", status, text)
	}
	// Of many signals at once the last one is not lost. A file that is gone changes nothing.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.hangUp()
	}
	write(t, file, strings.Replace(other, "id: first,", "id: third,", 1))
	s.hangUp()
	last := strings.Replace(other, "sources:\n", "sources:\n  - {id: fourth, secret: \"${WEB_SECRET}\"}\n", 1)
	write(t, file, last)
	s.hangUp()
	s.waitLog("sources=3", 1)
	stop()
	clients.Wait()
	s.hangUp() // the server ends meanwhile
	s.stop()
	if rows, different := rowsOf(t, db, "events"), rowsOf(t, db, "(SELECT DISTINCT n FROM events)"); rows != different || rows < sent || rows > sent+senders || sent == 0 {
		t.Errorf("%d events were confirmed; the table has %d rows, %d different", sent, rows, different)
	}
	for i := range good {
		if rowsOf(t, db, fmt.Sprintf("events WHERE extra%d IS NOT NULL", i)) == 0 {
			t.Errorf("no event has the column of reload %d", i)
		}
	}
	if n := rowsOf(t, db, "first"); n != 1 {
		t.Errorf("the new source has %d rows, want 1", n)
	}
	if strings.Contains(s.Logs(), webSecret) {
		t.Error("a secret is logged")
	}
}
