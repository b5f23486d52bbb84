package server

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The console is served in addition to the API, to clients with the API's token. Its open streams do not delay the end of the server.
func TestConsoleBesideTheAPI(t *testing.T) {
	dir := t.TempDir()
	var cfg Config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	cfg.Register(flags)
	if err := flags.Parse([]string{"-ui", "-dir", dir, "-addr", "127.0.0.1:0", "-api-addr", "127.0.0.1:0", "-source", "web", "-api-public-url", "http://events.example.com:81"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, cfg, Parts{}, in)
		in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	var printed strings.Builder
	for !strings.Contains(printed.String(), "Watch it at http://events.example.com:81/console/ with the token in "+filepath.Join(dir, "token")) {
		if !lines.Scan() {
			t.Fatalf("the console is not in %s, %v", &printed, <-ended)
		}
		printed.WriteString(lines.Text() + "\n")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	addr := regexp.MustCompile(`api=(\S+)`).FindStringSubmatch(printed.String())[1]
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, host, token string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	for _, tc := range []struct {
		path, host, token string
		status            int
	}{
		{"/console/snapshot", "", "wrong", 401},
		{"/console/snapshot", "", string(token), 200},
		{"/console/snapshot", "events.example.com:81", string(token), 200},
		{"/console/snapshot", "evil.example.com", string(token), 421},
		{"/console", "", string(token), 308},
		{"/v1/documentation", "", "", 200},
	} {
		if resp := get(tc.path, tc.host, tc.token); resp.StatusCode != tc.status {
			t.Errorf("%s of %q: status %d, want %d", tc.path, tc.host, resp.StatusCode, tc.status)
		}
	}
	stream := bufio.NewScanner(get("/console/stream?page=overview", "", string(token)).Body)
	for stream.Scan() && !strings.Contains(stream.Text(), "web/events") {
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for stream.Scan() {
	}
	if err := stream.Err(); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
}

func TestConsoleNeedsALongToken(t *testing.T) {
	var cfg Config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	cfg.Register(flags)
	if err := flags.Parse([]string{"-ui", "-token", "short"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cfg.Check()...); err == nil || !strings.Contains(err.Error(), "-token has 5 bytes") || strings.Contains(err.Error(), "short") {
		t.Errorf("problems: %v", err)
	}
}
