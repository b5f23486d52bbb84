package fastserver_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// TestRefusalsAreJSON checks that a request that no handler sees, because its head cannot be read, gets JSON.
func TestRefusalsAreJSON(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
	fast, err := fastserver.New(handler, fastserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, server := range map[string]interface {
		Serve(l net.Listener) error
		Close() error
	}{"net/http": stream.Server("", handler), "fastserver": fast} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = server.Serve(stream.LimitConnections(l, 10)); close(ended) }()
		t.Cleanup(func() { _ = server.Close(); <-ended })
		for _, tt := range []struct {
			request string
			status  int
			error   string
		}{
			{"GET /v1/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "stream.in.badRequest"},
			{"POST /stream/1/a/%zz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 400, "stream.in.badRequest"},
			{"GET /v1 HTTP/1.1\r\n\r\n", 400, "stream.in.badRequest"},
			{"GET /v1 HTTP/9.1\r\nHost: x\r\n\r\n", 505, "stream.in.badRequest"},
			{"POST /v1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: strange\r\n\r\n", 501, "stream.in.badRequest"},
			{"GET /v1 HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", 431, "stream.in.headerTooLarge"},
		} {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.WriteString(conn, tt.request) }()
			answer, _ := io.ReadAll(conn) // the client of a long head may see a reset after the response
			conn.Close()
			head, text, _ := strings.Cut(string(answer), "\r\n\r\n")
			var body struct {
				StatusCode     int
				Error, Message string
			}
			if err := json.Unmarshal([]byte(text), &body); err != nil || body.StatusCode != tt.status || body.Error != tt.error || body.Message == "" ||
				!strings.Contains(head, "Content-Type: application/json") {
				t.Errorf("%s: %.60q is answered %q, want JSON with status %d and error %s", name, tt.request, answer, tt.status, tt.error)
			}
		}
	}
}
