package recipes

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream"
)

// A process leaves while clients send. Every event that got a 200 is in the table of the next process, once.
func TestServe(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	source := numbers()
	source.Secret = strings.Repeat("s", 48)
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Define(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + listener.Addr().String()
	status := func(method, url, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	leave, signal := context.WithCancel(t.Context())
	defer signal()
	answered := make(chan struct{})
	noticed := func() {
		if got := status(http.MethodGet, base+"/ready", ""); got != http.StatusServiceUnavailable {
			t.Errorf("readiness is %d while the process leaves", got)
		}
		if _, ok := <-answered; !ok {
			t.Error("a client that has not noticed yet is not answered")
		}
	}
	served := make(chan error, 1)
	go func() {
		served <- Serve(leave, listener, eng, stream.Ingest(eng, stream.Options{}), noticed, slog.New(slog.DiscardHandler))
	}()
	var stored []int
	for n := 0; ; n++ {
		got := status(http.MethodPost, base+"/stream/1/queue/"+source.Secret, fmt.Sprintf(`{"n":%d}`, n))
		if got == http.StatusOK {
			stored = append(stored, n)
			select {
			case answered <- struct{}{}:
			default:
			}
		} else if n > 30 {
			break
		}
		if n == 30 {
			if got := status(http.MethodGet, base+"/ready", ""); got != http.StatusOK {
				t.Errorf("readiness is %d", got)
			}
			signal()
		}
	}
	close(answered)
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	_, rows := openIn(t, data, source)
	seen := make(map[string]int)
	for _, row := range rows("numbers") {
		seen[row[0]]++
	}
	for _, n := range stored {
		if seen[fmt.Sprint(n)] != 1 {
			t.Errorf("event %d is in the table %d times", n, seen[fmt.Sprint(n)])
		}
	}
	if len(stored) < 31 {
		t.Errorf("%d events were answered, want at least 31", len(stored))
	}
}
