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

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/stream"
)

// instance is the program while it runs.
type instance struct {
	url    string
	cancel context.CancelFunc
	ended  chan error
}

func start(t *testing.T, dir string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	in := &instance{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		in.ended <- run(ctx, []string{"-dir", dir, "-addr", "127.0.0.1:0"}, pw, io.Discard)
		pw.Close()
	}()
	line, err := bufio.NewReader(pr).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready addr=")
	if err != nil || !ok {
		t.Fatalf("first line %q, %v, %v", line, err, <-in.ended)
	}
	go io.Copy(io.Discard, pr)
	in.url = "http://" + addr
	return in
}

func (in *instance) stop(t *testing.T) {
	t.Helper()
	in.cancel()
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

// The commands of the README do what it says, and what they did is there after a restart.
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
	cmd.Env = append(os.Environ(), "URL="+in.url, "TOKEN="+token, "TABLE_TYPE="+stream.DefaultTableType)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
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
