package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
)

// Two runs of the program on one folder. Each event that got a 200 is in the table once.
func TestStart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for range 2 {
		listener, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, data, listener) }()
		url := "http://" + listener.Addr().String() + "/stream/1/web/change-me"
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"user":{"id":42}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", "signup-42") // the second and the next run's requests are repetitions
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || string(body) != "OK" {
				t.Errorf("got %s %q, %v, want no error and resp.StatusCode == %v and string(body) == \"OK\"", resp.Status, body, err, http.StatusOK)
			}
			resp.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := eng.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for row, err := range dir.Tables(filepath.Join(data, "tables")).Rows("in.c-web.signups") {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if len(rows) != 1 || rows[0][2] != "42" || rows[0][3] != `{"user":{"id":42}}` {
		t.Errorf("the table has %q", rows)
	}
}
