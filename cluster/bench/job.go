package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/natsdriver"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
)

// The kinds of jobs.
const (
	kindNode   = "node"   // a node, with its server inside or not
	kindServer = "server" // a server of NATS alone
	kindEngine = "engine" // an engine without a log
)

// jobConfig is the configuration that a process gets when it starts.
type jobConfig struct {
	Kind, Name string
	// Dir is the folder of the whole round.
	Dir string
	// Listen and Peers are addresses of servers. A node without Listen connects to URL.
	Listen string
	Peers  []string
	URL    string
	// Client is the address of a server for nodes.
	Client string
	// Replicas are the copies of each log, 0 for the default, and KeysByNode is the option of nodes.
	Replicas   int
	KeysByNode bool
	// Away says that the staging accepts no slices, so that all rows stay on the node.
	Away bool
}

// job is one process at work.
type job struct {
	cfg     jobConfig
	log     io.Writer
	staging *noting
	engine  *forebay.Engine  // nil in a server
	catalog *catalog.Catalog // nil but in a node
	server  *server.Server   // nil but in a server
	adopted chan adoptionTimes
	profile *os.File
}

const (
	secret   = "s3cret"
	sourceID = "web"
	maxStore = 8 << 30
)

// away is a staging that accepts no slices.
type away struct{ driver.Staging }

func (away) Put(ctx context.Context, _ driver.Object, _ driver.Content) error {
	<-ctx.Done()
	return ctx.Err()
}

// noting notes when it is given the first slice.
type noting struct {
	driver.Staging
	once  sync.Once
	first time.Time
}

func (n *noting) Put(ctx context.Context, obj driver.Object, c driver.Content) error {
	n.once.Do(func() { n.first = time.Now() })
	return n.Staging.Put(ctx, obj, c)
}

func runJob(ctx context.Context, env string, in io.Reader, out io.Writer) (err error) {
	var cfg jobConfig
	if err := json.Unmarshal([]byte(env), &cfg); err != nil {
		return err
	}
	j := &job{cfg: cfg, log: os.Stderr, adopted: make(chan adoptionTimes, 1)}
	responses := json.NewEncoder(out)
	closeJob, err := j.open(ctx)
	if err != nil {
		return responses.Encode(response{Error: err.Error()})
	}
	defer func() { err = errors.Join(err, closeJob()) }()
	if err := responses.Encode(response{}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		var a response
		result, err := j.do(ctx, q)
		if err == nil {
			a.Result, err = json.Marshal(result)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := responses.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) open(ctx context.Context) (closeJob func() error, err error) {
	folder := filepath.Join(j.cfg.Dir, j.cfg.Name)
	staging := dir.Staging(filepath.Join(j.cfg.Dir, "staging"))
	j.staging = &noting{Staging: staging}
	o := forebay.Options{Staging: j.staging, Target: dir.Tables(tables(j.cfg.Dir))}
	if j.cfg.Away {
		o.Staging = away{staging}
	}
	switch j.cfg.Kind {
	case kindServer:
		return j.serve(ctx, folder)
	case kindEngine:
		if j.engine, err = forebay.Open(folder, o); err != nil {
			return nil, err
		}
		return j.engine.Close, nil
	}
	options := cluster.Options{
		Node: j.cfg.Name, URL: j.cfg.URL, Engine: o, Checkpoints: staging, NATS: natsdriver.Options{Replicas: j.cfg.Replicas}, KeysByNode: j.cfg.KeysByNode,
		Logger: slog.New(adoptions{slog.NewTextHandler(j.log, &slog.HandlerOptions{Level: slog.LevelWarn}), j.adopted}),
	}
	if j.cfg.Listen != "" {
		options.Server = &natsserver.Options{Listen: j.cfg.Listen, Peers: j.cfg.Peers, Secret: secret, MaxStore: maxStore}
	}
	node, err := cluster.Open(ctx, folder, options)
	if err != nil {
		return nil, err
	}
	j.engine, j.catalog = node.Engine(), node.Catalog()
	return node.Close, nil
}

func tables(dir string) string { return filepath.Join(dir, "tables") }

// serve runs a server as it would run on its own, with the settings that a log needs.
func (j *job) serve(ctx context.Context, folder string) (closeJob func() error, err error) {
	at, err := net.ResolveTCPAddr("tcp", j.cfg.Client)
	if err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName: j.cfg.Name, Host: at.IP.String(), Port: at.Port, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: folder, SyncAlways: true, JetStreamMaxStore: maxStore, DisableJetStreamBanner: true,
	}
	if len(j.cfg.Peers) > 1 {
		at, err := net.ResolveTCPAddr("tcp", j.cfg.Listen)
		if err != nil {
			return nil, err
		}
		o.Cluster = server.ClusterOpts{Name: "bench", Host: at.IP.String(), Port: at.Port}
		for _, peer := range j.cfg.Peers {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: peer})
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	j.server = s
	s.Start()
	stop := func() error { s.Shutdown(); s.WaitForShutdown(); return nil }
	for s.Healthz(&server.HealthzOptions{JSMetaOnly: true}).Error != "" {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), stop())
		}
	}
	return stop, nil
}

func (j *job) do(ctx context.Context, q question) (any, error) {
	switch q.Do {
	case "usage":
		u := measureUsage()
		if j.server != nil {
			v, err := j.server.Varz(nil)
			if err != nil {
				return nil, err
			}
			u.In, u.Out = v.InBytes, v.OutBytes
		}
		return u, nil
	case "profile":
		return nil, j.startProfile(q.Path)
	case "profiled":
		pprof.StopCPUProfile()
		return nil, j.profile.Close()
	case "define":
		return nil, j.define(ctx, int(q.Number))
	case "knows":
		return nil, j.knows(ctx)
	case "adopted":
		select {
		case times := <-j.adopted:
			if times.Ended.IsZero() {
				return nil, errors.New("the instance is damaged")
			}
			j.staging.once.Do(func() {})
			times.First = j.staging.first
			return times, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "fill":
		return j.fill(ctx, q.Number)
	}
	return nil, fmt.Errorf("%s is unknown", q.Do)
}

func (j *job) startProfile(path string) (err error) {
	if j.profile, err = os.Create(path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(j.profile)
}

// usage is the resource usage of a process.
type usage struct {
	// CPU is the time of all cores since its start.
	CPU time.Duration
	// Resident and Heap are bytes. Resident is 0 where there is no /proc.
	Resident, Heap int64
	Goroutines     int
	// Written are the bytes that went to disks, 0 where there is no /proc. In and Out are the bytes of messages to and from a server.
	Written, In, Out int64
}

func measureUsage() (u usage) {
	u.CPU = cputime.Process()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range bytes.Lines(status) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(string(line), "VmRSS: %d kB", &kilobytes); n == 1 {
			u.Resident = kilobytes << 10
		}
	}
	io, _ := os.ReadFile("/proc/self/io")
	for line := range bytes.Lines(io) {
		_, _ = fmt.Sscanf(string(line), "write_bytes: %d", &u.Written) // the line for it is one of several
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Heap, u.Goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	return u
}

func columns() mapping.Columns { return mapping.Columns{mapping.Path("v", "v", mapping.RawString())} }

func tableID(sink int) string { return fmt.Sprintf("in.c-bench.table-%d", sink) }

// define makes a source with so many sinks.
func (j *job) define(ctx context.Context, sinks int) error {
	if j.catalog == nil {
		source := forebay.Source{ID: sourceID}
		for i := range sinks {
			source.Sinks = append(source.Sinks, forebay.Sink{ID: fmt.Sprintf("sink-%d", i), Table: forebay.Table{ID: tableID(i), Columns: columns()}})
		}
		return j.engine.Define(ctx, source)
	}
	spec := catalog.SourceSpec{ID: sourceID, Name: sourceID, Type: forebay.HTTP}
	for i := range sinks {
		spec.Sinks = append(spec.Sinks, catalog.SinkSpec{Name: fmt.Sprintf("sink-%d", i), TableID: tableID(i), Columns: columns()})
	}
	task, err := j.catalog.CreateSource(catalog.By{Type: "system"}, spec)
	if err == nil {
		_, err = task.Wait(ctx)
	}
	return err
}

// knows waits until the engine of a node accepts events of the source, which another node may have created.
func (j *job) knows(ctx context.Context) error {
	for {
		source, err := j.catalog.Source(sourceID)
		if _, ok := j.engine.SourceWithSecret(sourceID, source.Secret); err == nil && ok {
			return nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// fill stores rows that cannot be compressed, of 4 KiB each, until they have so many bytes. It returns how many rows it has stored.
func (j *job) fill(ctx context.Context, size int64) (rows int64, err error) {
	const batch = 64
	value := make([]byte, 3<<10)
	random := rand.New(rand.NewPCG(1, 1))
	for ; rows*(4<<10) < size; rows += batch {
		records := make([]*mapping.Record, batch)
		for i := range records {
			for at := 0; at < len(value); at += 8 {
				word := random.Uint64()
				for k := range 8 {
					value[at+k] = byte(word >> (8 * k))
				}
			}
			records[i] = mapping.JSON([]byte(`{"v":"` + base64.StdEncoding.EncodeToString(value) + `"}`))
		}
		if _, err := j.engine.IngestBatch(ctx, sourceID, records); err != nil {
			return rows, err
		}
	}
	return rows, nil
}
