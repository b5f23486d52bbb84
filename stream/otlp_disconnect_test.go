package stream_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/stream"
)

// A client that goes away in the middle of a request leaves nothing. No record of it is stored and its memory is free for
// others. One that goes away after its request has all of its records stored, or none.
func TestOTLPDisconnect(t *testing.T) {
	s := newService(t, nil, telemetry())
	// Half of the bodies below, kept after their end, would be more than this.
	srv := httptest.NewServer(stream.Ingest(s.eng, stream.Options{MaxBodyBytes: 256 << 10, MaxBufferedBytes: 1 << 20}))
	defer srv.Close()
	address := strings.TrimPrefix(srv.URL, "http://")
	const records, clients = 20, 40
	encode := func(name string) []byte {
		bodies := make([]string, records)
		for i := range bodies {
			bodies[i] = fmt.Sprintf("%s %d %s", name, i, strings.Repeat("x", 5<<10))
		}
		data, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs(bodies...))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	// send writes a request up to the cut and closes the connection, without a look at the response unless wait is set.
	send := func(data []byte, framing string, cut int, wait bool) (status int) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		request := fmt.Appendf(nil, "POST /otlp/1/app/%s/v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n%s\r\n", webSecret, protobuf, framing)
		request = append(request, data[:len(data)-cut]...)
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		if !wait {
			return 0
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for i := range clients {
		data := encode(fmt.Sprintf("cut-%d", i))
		framing := fmt.Sprintf("Content-Length: %d\r\n", len(data))
		if i%2 == 0 { // the first chunk is announced with the whole size
			framing = "Transfer-Encoding: chunked\r\n"
			data = append(fmt.Appendf(nil, "%x\r\n", len(data)), data...)
		}
		send(data, framing, 1+i*len(data)/(clients+1), false)
	}
	for i := range clients {
		data := encode(fmt.Sprintf("gone-%d", i))
		send(data, fmt.Sprintf("Content-Length: %d\r\n", len(data)), 0, false)
	}
	data := encode("stays")
	for tries := 0; ; tries++ { // those above may be in progress still
		status := send(data, fmt.Sprintf("Content-Length: %d\r\n", len(data)), 0, true)
		if status == http.StatusOK {
			break
		}
		if status != http.StatusServiceUnavailable || tries == 10_000 {
			t.Fatalf("status %d", status)
		}
	}
	srv.Close() // waits for the requests in progress
	if err := s.eng.Flush(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]int)
	for _, row := range s.mem.Rows("in.c-app.logs") {
		name, _, _ := strings.Cut(row[0], " ")
		rows[name]++
	}
	for name, n := range rows {
		if n != records || strings.HasPrefix(name, "cut") {
			t.Errorf("got %d records of %s, want all %d of a whole request and none of one that was cut", n, name, records)
		}
	}
	if rows["stays"] != records {
		t.Error("the batch of a client that waited is not there")
	}
	t.Logf("%d of %d batches without a listener were stored", len(rows)-1, clients)
}
