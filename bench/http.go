package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// secret is the last part of the path of the benchmark's source.
const secret = "0123456789abcdef0123456789abcdef0123456789abcdef"

// ingestPath is where events are posted to.
const ingestPath = "/stream/1/" + sourceID + "/" + secret

// httpCallers is the number of kept connections with one request in flight each.
const httpCallers = 64

// A httpServer serves the connections of a listener until it is closed, and returns [http.ErrServerClosed] then.
type httpServer interface {
	Serve(net.Listener) error
	Close() error
}

// newServer makes a server for a handler.
type newServer func(http.Handler) (httpServer, error)

// netHTTP is the server of the standard library, with the limits of package stream.
func netHTTP(h http.Handler) (httpServer, error) { return stream.Server("", h), nil }

// fast is the server that examples/server takes events with.
func fast(h http.Handler) (httpServer, error) { return fastserver.New(h, fastserver.Options{}) }

// httpSingle posts one event a request over loopback to the ingestion handler of an engine.
func httpSingle(w workload, server newServer) func(context.Context, *env) (*sample, error) {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		db, err := openEngine(ctx, e, forebay.Settings{}, false)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.close()) }()
		s, err := measureHTTP(ctx, e, w.traffic(), server, stream.Ingest(db.eng, stream.Options{}))
		if err != nil {
			return nil, err
		}
		return s, db.verify(ctx, s.total)
	}
}

// lineEvents is the number of events of a request with lines.
const lineEvents = 500

// lineCallers are few: together they have more events under way than any scenario with single ones.
const lineCallers = 8

// httpLines posts newline-delimited events, many in one request, to a source that takes them apart.
func httpLines(w workload) func(context.Context, *env) (*sample, error) {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		db, err := openSplitting(ctx, e, forebay.Settings{}, false, forebay.SplitLines)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.close()) }()
		s, err := measureHTTP(ctx, e, w.lines(), netHTTP, stream.Ingest(db.eng, stream.Options{MaxBodyBytes: stream.MaxBodyBytesLimit}))
		if err != nil {
			return nil, err
		}
		return s, db.verify(ctx, s.total)
	}
}

// lines posts lineEvents events a request.
func (w workload) lines() traffic {
	t := w.traffic()
	t.name, t.rows, t.requests, t.connections = "lines/"+w.name, lineEvents, 4, lineCallers
	t.request = func(addr string, n int) []byte {
		var body []byte
		for i := range lineEvents {
			body = append(append(body, w.body(n*lineEvents+i)...), '\n')
		}
		return post(addr, ingestPath, header(), body)
	}
	return t
}

// httpDiscard answers the same requests without looking at them: the most that a server and the load generator can do on
// this machine.
func httpDiscard(w workload, server newServer) func(context.Context, *env) (*sample, error) {
	return func(ctx context.Context, e *env) (*sample, error) {
		return measureHTTP(ctx, e, w.traffic(), server, http.HandlerFunc(discardRequest))
	}
}

func discardRequest(w http.ResponseWriter, r *http.Request) {
	if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
		http.Error(w, "wrong body", http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "OK")
}

// traffic is what the load generator sends.
type traffic struct {
	// name is how the load generator finds it.
	name string
	// rows is what one request makes; requests is how many different ones a connection sends in turn.
	rows, requests int
	// connections is the number of kept connections with one request in flight each. Default: httpCallers.
	connections int
	// rowBytes is the size of one row.
	rowBytes func() (int, error)
	// request encodes a request to the server at addr. Requests of different numbers differ.
	request func(addr string, n int) []byte
}

// traffics returns everything that the load generator can send.
func traffics() []traffic {
	var all []traffic
	for _, w := range workloads() {
		all = append(all, w.traffic(), w.lines())
	}
	for _, b := range telemetries() {
		all = append(all, b.traffic())
	}
	return all
}

// traffic posts one event a request.
func (w workload) traffic() traffic {
	return traffic{
		name: w.name, rows: 1, requests: 16,
		rowBytes: func() (int, error) {
			row, err := w.row()
			return len(row), err
		},
		request: func(addr string, n int) []byte {
			return post(addr, ingestPath, header(), w.body(n))
		},
	}
}

// post encodes a request.
func post(addr, path string, header http.Header, body []byte) []byte {
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", path, addr, len(body))
	for name, values := range header {
		request = fmt.Appendf(request, "%s: %s\r\n", name, values[0])
	}
	request = append(request, "\r\n"...)
	return append(request, body...)
}

// measureHTTP serves handler on a loopback port and lets a child process send the load, so that the CPU of the server
// can be told from that of its clients.
func measureHTTP(ctx context.Context, e *env, t traffic, create newServer, handler http.Handler) (*sample, error) {
	rowBytes, err := t.rowBytes()
	if err != nil {
		return nil, err
	}
	server, err := create(handler)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s, err := runClient(ctx, e, t, listener.Addr().String(), rowBytes)
	// The clients have closed their connections, or are dead.
	if closing := server.Close(); err == nil {
		err = closing
	}
	if serving := <-served; err == nil && !errors.Is(serving, http.ErrServerClosed) {
		err = serving
	}
	return s, err
}

// clientCommand is the first argument that makes this program the load generator.
const clientCommand = "load-generator"

// clientReport is what the load generator writes as its last line. It writes an empty line when its window begins,
// and one when it ends, so that this process can look at its own usage at these moments.
type clientReport struct {
	Rows, Total, Overloads int64
	Elapsed, CPU           time.Duration
	// Latency are the counts of the histogram by bucket.
	Latency map[int]uint64
	Err     string
}

func runClient(ctx context.Context, e *env, t traffic, addr string, rowBytes int) (*sample, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, clientCommand, addr, t.name, e.duration.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var report clientReport
	s, err := readClient(e, bufio.NewReader(out), &report)
	if exit := cmd.Wait(); exit != nil {
		return nil, fmt.Errorf("load generator: %w", errors.Join(context.Cause(ctx), exit))
	}
	if err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	if report.Err != "" {
		return nil, fmt.Errorf("load generator: %s", report.Err)
	}
	s.rows, s.total, s.overloads = report.Rows, report.Total, report.Overloads
	s.elapsed, s.client = report.Elapsed, report.CPU
	s.bytes = s.rows * int64(rowBytes)
	for bucket, n := range report.Latency {
		s.latency.counts[bucket] = n
		s.latency.total += n
	}
	return s, nil
}

func readClient(e *env, lines *bufio.Reader, report *clientReport) (*sample, error) {
	var marks [2]usage
	for i := range marks {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line != "\n" { // it failed early
			return nil, json.Unmarshal([]byte(line), report)
		}
		marks[i] = readUsage(e)
	}
	s := marks[1].since(marks[0])
	return s, json.NewDecoder(lines).Decode(report)
}

// generateLoad is the load generator: kept connections, each with one request in flight. It speaks HTTP by itself,
// with a request that is encoded once, to leave the CPU to the server.
func generateLoad(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 3 {
		return errors.New("the load generator is started by bench itself")
	}
	d, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	var report clientReport
	for _, t := range traffics() {
		if t.name == args[1] {
			report, err = generate(ctx, args[0], t, d, stdout)
		}
	}
	if err != nil {
		report.Err = err.Error()
	}
	return json.NewEncoder(stdout).Encode(report)
}

func generate(ctx context.Context, addr string, t traffic, d time.Duration, stdout io.Writer) (clientReport, error) {
	var report clientReport
	connections := make([]*connection, cmp.Or(t.connections, httpCallers))
	for i := range connections {
		c, err := dial(ctx, addr, t, i)
		if err != nil {
			return report, err
		}
		defer c.conn.Close()
		connections[i] = c
	}
	s, err := measure(ctx, &env{duration: d}, load{
		callers: len(connections), rowBytes: 1, every: 1,
		start: func(caller int) (operation, error) { return connections[caller].post, nil },
		mark:  func() { fmt.Fprintln(stdout) },
	})
	if err != nil {
		return report, err
	}
	report.Rows, report.Total, report.Elapsed, report.CPU = s.rows, s.total, s.elapsed, s.cpu
	for _, c := range connections {
		report.Overloads += c.overloads
	}
	report.Latency = make(map[int]uint64)
	for bucket, n := range s.latency.counts {
		if n > 0 {
			report.Latency[bucket] = n
		}
	}
	return report, nil
}

// A connection sends its events in turn.
type connection struct {
	conn      net.Conn
	in        *bufio.Reader
	requests  [][]byte
	rows      int // of one request
	n         int
	overloads int64
}

func dial(ctx context.Context, addr string, t traffic, caller int) (*connection, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &connection{conn: conn, in: bufio.NewReader(conn), rows: t.rows}
	for i := range t.requests {
		c.requests = append(c.requests, t.request(addr, caller*t.requests+i))
	}
	return c, nil
}

// post sends the next event and reads the answer.
func (c *connection) post() (int, error) {
	c.n++
	if _, err := c.conn.Write(c.requests[c.n%len(c.requests)]); err != nil {
		return 0, err
	}
	status, err := c.answer()
	switch {
	case err != nil:
		return 0, err
	case status == http.StatusOK:
		return c.rows, nil
	case status == http.StatusServiceUnavailable:
		c.overloads++
		time.Sleep(10 * time.Millisecond)
		return 0, nil
	}
	return 0, fmt.Errorf("status %d", status)
}

// answer reads one answer of a known length and returns its status.
func (c *connection) answer() (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	const version = "HTTP/1.1 "
	if len(line) < len(version)+3 {
		return 0, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[len(version) : len(version)+3])); err != nil {
		return 0, fmt.Errorf("status line %q", line)
	}
	length := -1
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		const name = "Content-Length: "
		switch {
		case len(line) == len("\r\n"):
			if length < 0 {
				return 0, errors.New("the answer has no Content-Length")
			}
			_, err = c.in.Discard(length)
			return status, err
		case len(line) > len(name)+2 && string(line[:len(name)]) == name:
			if length, err = strconv.Atoi(string(line[len(name) : len(line)-2])); err != nil {
				return 0, fmt.Errorf("header line %q", line)
			}
		}
	}
}
