package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/stream/streamapi"
)

// No goroutine of the program runs after its end.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Idle connections of the default transport.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}

// instance is the program while it runs.
type instance struct {
	url    string
	cancel context.CancelFunc
	ended  chan error
	shown  *bufio.Reader // its output after the first line
}

func start(t *testing.T, dir string, args ...string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	in := &instance{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		in.ended <- run(ctx, append([]string{"-dir", dir, "-addr", "127.0.0.1:0"}, args...), pw, io.Discard)
		pw.Close()
	}()
	in.shown = bufio.NewReader(pr)
	line, err := in.shown.ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready addr=")
	if err != nil || !ok {
		t.Fatalf("first line %q, %v, %v", line, err, <-in.ended)
	}
	in.url = "http://" + addr
	return in
}

func (in *instance) stop(t *testing.T) {
	t.Helper()
	in.cancel()
	_, _ = io.Copy(io.Discard, in.shown)
	if err := <-in.ended; err != nil {
		t.Fatalf("the program ended with %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// The commands of the README work as described, and their results are there after a restart.
func TestReadme(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not there", tool)
		}
	}
	dir := t.TempDir()
	in := start(t, dir)
	token := read(t, filepath.Join(dir, "token"))
	script := "set -euo pipefail\n"
	for _, block := range shellBlock.FindAllStringSubmatch(read(t, "README.md"), -1) {
		script += block[1]
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "URL="+in.url, "TOKEN="+token, "TABLE_TYPE="+streamapi.DefaultTableType)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("got %v\n%s\nwant no error", err, out)
	}
	for _, want := range []string{
		`"services":[{"id":"queue"`, `"openApiSpecUrl"`, `"changeDescription":"Greet two"`, `"status":"success"`,
		`"changeDescription":"Say how"`, `"Grace","Good morning, Grace"`, `"message":"Greeted"`, `{"version":"4"}`, `"state":{}`,
		`"Ida","Hello, Ida"`, `"state":{"runs":1}`, `"name":"Copy"`, `"rowsSortOrder":["Tom","Ida"]`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %s:\n%s", want, out)
		}
	}
	// The Stream API asks the platform whose token it is.
	for token, want := range map[string]int{token: http.StatusOK, "1-1-a-token-of-somebody-else": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.url+"/v1/branches/default/sources", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(storageapi.TokenHeader, token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("sources: status %d, want %d", resp.StatusCode, want)
		}
	}
	in.stop(t) // moves the event to its table

	in = start(t, dir)
	defer in.stop(t)
	client, err := storageapi.New(storageapi.Options{URL: in.url, Token: storageapi.Secret(token)})
	if err != nil {
		t.Fatal(err)
	}
	config, err := client.Configuration(t.Context(), component, "hello")
	if err != nil || config.Version != 4 || !strings.Contains(string(config.Configuration), `"names":["Ada"]`) {
		t.Errorf("configuration %+v, %v", config, err)
	}
	var descriptions []string
	for made, err := range client.Tokens(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		descriptions = append(descriptions, made.Description)
	}
	if !slices.Contains(descriptions, "[_internal] Stream Sink web/events") {
		t.Errorf("tokens %q: the sink has none of its own", descriptions)
	}
	rc, err := client.Preview(t.Context(), "in.c-web.events", storageapi.RowQuery{Columns: []string{"user", "body"}})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if want := "\"user\",\"body\"\n\"42\",\"{\"\"user\"\": {\"\"id\"\": 42}}\"\n"; err != nil || string(data) != want {
		t.Errorf("table %q, %v, want %q", data, err, want)
	}
}

// The server follows the flags, and so does its output. A token that is given is kept nowhere.
func TestFlags(t *testing.T) {
	const token = "77-1-given-by-a-flag"
	dir := t.TempDir()
	in := start(t, dir, "-token", token, "-project-id", "77", "-public-url", "https://platform.example.com/")
	defer in.stop(t)
	var shown string
	for !strings.Contains(shown, "TABLE_TYPE=") {
		line, err := in.shown.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		shown += line
	}
	if strings.Contains(shown, token) || strings.Contains(shown, "token)") || !strings.Contains(shown, "URL=https://platform.example.com TOKEN=$TOKEN ") {
		t.Errorf("it prints %s", shown)
	}
	if _, err := os.Stat(filepath.Join(dir, "token")); err == nil {
		t.Error("the token is kept in a file")
	}
	client, err := storageapi.New(storageapi.Options{URL: in.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	index, err := client.Index(t.Context())
	if err != nil || index.Service("stream") != "https://platform.example.com" || index.Service("queue") != "https://platform.example.com" {
		t.Errorf("index %+v, %v", index, err)
	}
	verified, err := client.VerifyToken(t.Context())
	if err != nil || verified.Owner.ID != 77 || !verified.IsMasterToken {
		t.Errorf("token %+v, %v", verified, err)
	}
}
