package quickstart

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// With -ui the console shows flowing events, a table that does not respond, and its recovery, until the program is interrupted. Then all rows
// reach their tables and are counted as usual.
func TestUI(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	status := make(chan int, 1)
	go func() {
		n := Main(ctx, []string{"-ui", "-n", "50", "-clients", "4", "-dir", t.TempDir()}, in, in, Options{outage: 2 * time.Second})
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
	snapshot := func(page string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", place[1]+"snapshot?page="+page, nil)
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
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
		}
		return string(body)
	}
	// A person who opens the page at once sees events that flow within two seconds. The console looks at the engine once a second by its own clock, so
	// these are two looks after the first one, however long a busy machine takes for them.
	var looks []int64
	for flowing, at := regexp.MustCompile(`"name":"In","value":"[1-9]`), regexp.MustCompile(`"full":\{"at":(\d+)`); ; {
		got := snapshot("overview")
		m := at.FindStringSubmatch(got)
		if m == nil {
			t.Fatalf("the console does not say when it has looked:\n%s", got)
		}
		if look, _ := strconv.ParseInt(m[1], 10, 64); len(looks) == 0 || looks[len(looks)-1] != look {
			looks = append(looks, look)
		}
		if len(looks) > 3 {
			t.Fatalf("no event flows after two seconds, the looks were at %d:\n%s", looks, got)
		}
		if flowing.MatchString(got) {
			break
		}
	}
	t.Logf("the first events flow %d ms after the first look, which is look %d", looks[len(looks)-1]-looks[0], len(looks))
	// Each sentence comes after the one before it. The rows that waited for the table are in it after the outage.
	for _, want := range []string{"1 of 2 sinks is held up. Nothing is lost.", "All 2 sinks flow.", "1 of 2 sinks is held up. Nothing is lost."} {
		tick, late := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
		for got := snapshot("overview"); !strings.Contains(got, want); got = snapshot("overview") {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("the console does not say %q:\n%s", want, got)
			}
		}
		tick.Stop()
	}
	cancel()
	for lines.Scan() {
		printed.WriteString(lines.Text() + "\n")
	}
	end := regexp.MustCompile(`quickstart: sent=(\d+) rows=(\d+) rejected=0 lost=0 duplicated=0\n$`).FindStringSubmatch(printed.String())
	if n := <-status; n != 0 || end == nil {
		t.Fatalf("status %d:\n%s", n, &printed)
	}
	sent, _ := strconv.Atoi(end[1])
	if rows, _ := strconv.Atoi(end[2]); sent <= 50 || rows != 2*sent {
		t.Errorf("sent %d events and %d rows, want more than 50 and two rows each", sent, rows)
	}
}
