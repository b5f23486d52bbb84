package fastserver_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/forebay/forebay/stream/fastserver"
)

// A handler of telemetry learns that a client has left before its response, and can flush the response.
func TestTelemetryNoticesClientsThatLeave(t *testing.T) {
	for _, target := range []string{"/otlp/1/app/secret", "/otlp/1/app/secret/v1/logs", "/v1/logs", "/v1/metrics/", "/v1/traces?x=1", "/prefix/v1/traces"} {
		arrived, left := make(chan error, 1), make(chan struct{})
		l := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(left)
		}), fastserver.Options{})
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", target); err != nil {
			t.Fatal(err)
		}
		if err := <-arrived; err != nil {
			t.Errorf("%s: flush: got %v, want no error", target, err)
		}
		conn.Close()
		select {
		case <-left:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the handler does not learn that the client has left", target)
		}
	}
}
