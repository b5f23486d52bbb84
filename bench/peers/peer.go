package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/internal/porttest"
	"github.com/forebay/forebay/internal/proctest"
)

// peer is a program that takes events over HTTP and stores them in the table events, whose columns are id and body.
type peer struct {
	name, settings string
	path           string
	otlp           bool // logs of OTLP, with the event as their body
	// serve runs in the peer's own process, until it is killed.
	serve func(place) error
}

var peers = []*peer{
	{name: "forebay", settings: "as shipped: imports each minute", path: forebayPath, serve: forebayEvery(0)},
	{name: "forebay-1s", settings: "uploads and imports each second", path: forebayPath, serve: forebayEvery(time.Second)},
	{name: "inserts", settings: "one INSERT a request, pgx, 64 connections", path: "/", serve: inserts},
	{name: "batcher", settings: "1,000 rows or 100 ms in memory, then COPY", path: "/", serve: batcher},
	{name: "connect", settings: "benthos as shipped: no batching", path: "/post", serve: connect("")},
	{name: "connect-batches", settings: "batching: count 10, period 100ms", path: "/post", serve: connect("batching: {count: 10, period: 100ms}")},
	{name: "collector", settings: "batch processor and memory queue as shipped", path: "/v1/logs", otlp: true, serve: collector(asShipped)},
	{name: "collector-disk", settings: "file_storage with fsync, batches in the queue", path: "/v1/logs", otlp: true, serve: collector(onDisk)},
	{name: "jetstream", settings: "file storage as shipped: syncs every 2 minutes", path: "/", serve: jetStream(false)},
	{name: "jetstream-sync", settings: "sync_interval: always", path: "/", serve: jetStream(true)},
}

func peerNamed(name string) (*peer, error) {
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no peer is named %q", name)
}

// place is where a peer runs.
type place struct {
	Peer, Addr, Dir, Database string
	Batch                     batch
}

// batch is how many rows the memory batcher collects, and for how long.
type batch struct {
	Rows  int
	Every time.Duration
}

const placeEnv = "FOREBAY_PEER"

// asPeer runs the peer of this process, if the process is one.
func asPeer() (runs bool, err error) {
	text, runs := os.LookupEnv(placeEnv)
	if !runs {
		return false, nil
	}
	go func() { // the input ends when the client's process does
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var at place
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return true, err
	}
	p, err := peerNamed(at.Peer)
	if err != nil {
		return true, err
	}
	return true, p.serve(at)
}

// process is a peer that runs. It has the same address and folder after a restart.
type process struct {
	*proctest.Process
	place
}

func startPeer(ctx context.Context, p *peer, at place) (*process, error) {
	addresses, err := porttest.Addresses(1)
	if err != nil {
		return nil, err
	}
	at.Peer, at.Addr = p.name, addresses[0]
	started := &process{place: at}
	return started, started.start(ctx)
}

// start returns when the peer accepts connections.
func (p *process) start(ctx context.Context) (err error) {
	if p.Process, err = proctest.Begin(proctest.Self(placeEnv + "=" + proctest.JSON(p.place))); err != nil {
		return err
	}
	for {
		conn, err := net.Dial("tcp", p.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.Gone():
			return p.Ended()
		default:
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			p.Kill()
			return fmt.Errorf("%w: %s", err, p.Logs())
		}
	}
}

func (p *process) restart(ctx context.Context) error {
	p.Kill()
	return p.start(ctx)
}

// usage is what Linux says about a process.
type usage struct {
	cpu             time.Duration
	memory, written int64 // the peak, and bytes to disk
}

func (p *process) usage() (u usage, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(p.Pid()))
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return u, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	for _, ticks := range fields[11:13] { // user and system
		n, err := strconv.ParseInt(string(ticks), 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(n) * 10 * time.Millisecond
	}
	kilobytes, err1 := number(filepath.Join(proc, "status"), "VmHWM:")
	written, err2 := number(filepath.Join(proc, "io"), "write_bytes:")
	u.memory, u.written = kilobytes*1024, written
	return u, cmp.Or(err1, err2)
}

// number returns the number after a name in a file of /proc.
func number(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("%s has no %s", path, name)
	}
	return strconv.ParseInt(fields[0], 10, 64)
}

func machineLoad() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// serveBodies serves requests with a function that stores their body.
func serveBodies(at place, store func(ctx context.Context, body []byte) error) error {
	return http.ListenAndServe(at.Addr, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = store(r.Context(), body)
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		}
	}))
}
