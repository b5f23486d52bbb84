package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/fastserver"
)

// ingestPath is where events are posted to.
const ingestPath = "/stream/1/" + sourceID + "/" + secret

// httpCallers is the number of kept connections with one request in flight each.
const httpCallers = 64

// A httpServer serves the connections of a listener until it is closed, and returns [http.ErrServerClosed] then.
type httpServer interface {
	Serve(net.Listener) error
	Close() error
}

type newServer func(http.Handler) (httpServer, error)

// netHTTP is the server of the standard library, with the limits of package stream.
func netHTTP(h http.Handler) (httpServer, error) { return stream.Server("", h), nil }

// fast is the server that examples/server accepts events with.
func fast(h http.Handler) (httpServer, error) { return fastserver.New(h, fastserver.Options{}) }

// httpSingle posts one event a request over loopback to the ingestion handler of an engine.
func httpSingle(t traffic, server newServer) scenarioFunc {
	return overHTTP(forebay.Source{}, t, server, stream.Options{})
}

// lineEvents is the number of events of a request with lines.
const lineEvents = 500

// lineCallers are few, because together they have more events in progress than any scenario with single events.
const lineCallers = 8

// httpLines posts newline-delimited events, many in one request, to a source that splits them.
func httpLines(w workload) scenarioFunc {
	return overHTTP(forebay.Source{Split: forebay.SplitLines}, w.lines(), netHTTP, stream.Options{MaxBodyBytes: stream.MaxBodyBytesLimit})
}

// overHTTP sends traffic over loopback to the ingestion handler of an engine with one source.
func overHTTP(source forebay.Source, t traffic, server newServer, opts stream.Options) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		return setup{source: source}.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) {
			return measureHTTP(ctx, e, t, server, stream.Ingest(eng, opts))
		})
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

// httpDiscard responds to the same requests without looking at them. This is the most that a server and the load generator can do on
// this machine.
func httpDiscard(t traffic, server newServer) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		return measureHTTP(ctx, e, t, server, http.HandlerFunc(discardRequest))
	}
}

func discardRequest(w http.ResponseWriter, r *http.Request) {
	if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
		http.Error(w, "wrong body", http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "OK")
}

// traffic is the input of the load generator.
type traffic struct {
	// name is how the load generator finds it.
	name string
	// rows is what one request makes, and requests is how many different ones a connection sends in turn.
	rows, requests int
	// connections is the number of kept connections with one request in flight each. Default: httpCallers.
	connections int
	// mark is in each request once. A number that no other request has takes its place. nil for requests that may be repeated.
	mark []byte
	// rowBytes is the size of one row.
	rowBytes func() int
	// request encodes a request to the server at addr. Requests of different numbers differ.
	request func(addr string, n int) []byte
}

// traffics returns everything that the load generator can send.
func traffics() []traffic {
	var all []traffic
	for _, w := range workloads() {
		all = append(all, w.traffic(), w.manyConnections(), w.lines())
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
		rowBytes: func() int { return len(w.row()) },
		request: func(addr string, n int) []byte {
			return post(addr, ingestPath, header(), w.body(n))
		},
	}
}

// manyConnections posts one event a request, over manyCallers connections.
func (w workload) manyConnections() traffic {
	t := w.traffic()
	t.name, t.connections, t.requests = "connections/"+w.name, manyCallers, 2
	return t
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
// and the CPU of its clients are measured apart.
func measureHTTP(ctx context.Context, e *env, t traffic, create newServer, handler http.Handler) (*sample, error) {
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
	s, err := runClient(ctx, e, t, listener.Addr().String())
	// The clients have closed their connections, or are dead.
	if closing := server.Close(); err == nil {
		err = closing
	}
	if serving := <-served; err == nil && !errors.Is(serving, http.ErrServerClosed) {
		err = serving
	}
	return s, err
}

type trafficArgs struct {
	Addr, Traffic string
	Duration      time.Duration
}

// runClient runs the load generator, which writes a line when its window begins and one when it ends, so that this process
// can look at its own usage at these moments.
func runClient(ctx context.Context, e *env, t traffic, addr string) (*sample, error) {
	c, err := startChild(ctx, "traffic", trafficArgs{addr, t.name, e.duration})
	if err != nil {
		return nil, err
	}
	var marks []usage
	var sent sample
	if err := c.wait(&sent, func(string) {
		if marks = append(marks, readUsage(e)); len(marks) == 2 && e.ended != nil {
			e.ended()
		}
	}); err != nil {
		return nil, err
	}
	if len(marks) != 2 {
		return nil, fmt.Errorf("the load generator wrote %d lines, want 2", len(marks))
	}
	s := marks[1].since(marks[0])
	s.Rows, s.Total, s.Overloads, s.Latency = sent.Rows, sent.Total, sent.Overloads, sent.Latency
	s.Elapsed, s.Client, s.Bytes = sent.Elapsed, sent.CPU, sent.Rows*int64(t.rowBytes())
	return s, nil
}

// generate is the load generator. It keeps connections, each with one request in flight. It speaks HTTP by itself, with
// requests that are encoded once, to leave the CPU to the server.
func generate(ctx context.Context, a trafficArgs, lines io.Writer) (*sample, error) {
	all := traffics()
	at := slices.IndexFunc(all, func(t traffic) bool { return t.name == a.Traffic })
	if at < 0 {
		return nil, fmt.Errorf("there is no traffic %q", a.Traffic)
	}
	connections, err := connect(ctx, new(net.Dialer).DialContext, a.Addr, all[at])
	defer func() {
		for _, c := range connections {
			c.conn.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	s, err := measure(ctx, &env{duration: a.Duration}, load{
		callers: len(connections), rowBytes: 1, every: 1,
		start: func(caller int) operation { return connections[caller].post },
		mark:  func() { fmt.Fprintln(lines) },
	})
	if err != nil {
		return nil, err
	}
	for _, c := range connections {
		s.Overloads += c.overloads
	}
	return s, nil
}

// A connection sends its events in turn.
type connection struct {
	conn      net.Conn
	in        *bufio.Reader
	requests  [][]byte
	places    []int // of the mark in each request, nil without one
	rows      int   // of one request
	n         int
	overloads int64
}

// connect dials the connections of traffic. Their requests are encoded before the first one is dialed because a server closes a connection
// without a request after a while, and a busy machine may take longer to encode megabytes.
func connect(
	ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), addr string, t traffic,
) (open []*connection, err error) {
	all := make([]*connection, cmp.Or(t.connections, httpCallers))
	for caller := range all {
		all[caller] = &connection{rows: t.rows}
		for i := range t.requests {
			request := t.request(addr, caller*t.requests+i)
			all[caller].requests = append(all[caller].requests, request)
			if t.mark != nil {
				if bytes.Count(request, t.mark) != 1 {
					return nil, fmt.Errorf("a request of %s has its mark %d times", t.name, bytes.Count(request, t.mark))
				}
				all[caller].places = append(all[caller].places, bytes.Index(request, t.mark))
			}
		}
	}
	for i, c := range all {
		if c.conn, err = dial(ctx, "tcp", addr); err != nil {
			return all[:i], err
		}
		c.in = bufio.NewReader(c.conn)
	}
	return all, nil
}

// post sends the next event and reads the response.
func (c *connection) post() (int, error) {
	c.n++
	which := c.n % len(c.requests)
	if c.places != nil {
		binary.BigEndian.PutUint64(c.requests[which][c.places[which]:], rand.Uint64())
	}
	if _, err := c.conn.Write(c.requests[which]); err != nil {
		return 0, err
	}
	status, err := c.readStatus()
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

// readStatus reads one response of a known length and returns its status.
func (c *connection) readStatus() (status int, err error) {
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
				return 0, errors.New("the response has no Content-Length")
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
