package quickstart

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// With -ui the engine stays open, with its console, until the program is interrupted. Then it ends as usual.
func TestUI(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	status := make(chan int, 1)
	go func() {
		n := Main(ctx, []string{"-ui", "-n", "50", "-clients", "4", "-dir", t.TempDir()}, in, in, Options{})
		in.Close()
		status <- n
	}()
	lines := bufio.NewScanner(out)
	var printed strings.Builder
	for !strings.Contains(printed.String(), "Press Ctrl-C") {
		if !lines.Scan() {
			t.Fatalf("it ends by itself with %d:\n%s", <-status, &printed)
		}
		printed.WriteString(lines.Text() + "\n")
	}
	place := regexp.MustCompile(`watch it at (\S+) with the token (\S+)`).FindStringSubmatch(printed.String())
	if place == nil {
		t.Fatal(&printed)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", place[1]+"snapshot?page=basin", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+place[2])
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), "All 2 sinks are idle. Nothing waits.") {
		t.Errorf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	cancel()
	for lines.Scan() {
		printed.WriteString(lines.Text() + "\n")
	}
	if n := <-status; n != 0 || !strings.HasSuffix(printed.String(), "quickstart: sent=50 rows=100 rejected=0 lost=0 duplicated=0\n") {
		t.Errorf("status %d:\n%s", n, &printed)
	}
}
