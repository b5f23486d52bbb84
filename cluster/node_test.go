package cluster_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsdriver"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/metertest"
	"github.com/forebay/forebay/internal/porttest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/streamapi"
)

const (
	tableID = "in.c-test.events"
	// testLease is shorter than the default, because tests wait until it ends. On a busy machine a node may stand still for longer.
	testLease = 6 * time.Second
)

// nodes are the nodes of one test, in this process.
type nodes struct {
	t     testing.TB
	dir   string
	peers []string
	links *clustertest.Links // nil if servers reach each other at peers
	// external, unless nil, leads nodes to servers that run on their own
	external *clustertest.Uplinks
	tokens   catalog.Tokens    // unless nil, makes the tokens of sinks
	lease    time.Duration     // of nodes that are opened from now on
	heard    func(line string) // unless nil, gets what nodes log that are opened from now on
	// timeout of requests to the servers, of nodes that are opened from now on
	timeout time.Duration
	// maxStore of the servers, 4 GiB unless set
	maxStore int64
	target   func(node string) driver.Target // unless nil, the target of a node
	archive  forebay.Archive                 // of all nodes, nil for none
	meters   map[string]*metertest.Meter     // by node, or nil if nothing is measured
	list     [clustertest.Size]*cluster.Node
}

func (c *nodes) options(i int) cluster.Options {
	name, heard := string(rune('a'+i)), c.heard
	o := cluster.Options{
		Node:   name,
		Server: &natsserver.Options{Listen: c.peers[i], Peers: c.peers, Secret: "s3cret", MaxStore: cmp.Or(c.maxStore, 4<<30)},
		NATS:   natsdriver.Options{MaxBytes: 256 << 20, Timeout: cmp.Or(c.timeout, clustertest.Patience)},
		Lease:  cmp.Or(c.lease, testLease),
		Engine: forebay.Options{
			Staging: dir.Staging(filepath.Join(c.dir, "staging")), Target: dir.Tables(c.tables()), Archive: c.archive,
		},
		API:    streamapi.Options{Auth: streamapi.StaticToken("token", 1), IngestURL: "http://localhost"},
		Logger: slog.New(slog.NewTextHandler(writer(func(line string) { c.log(line, heard) }), nil)),
	}
	if c.tokens != nil {
		o.Catalog.Tokens = c.tokens
	}
	if c.target != nil {
		o.Engine.Target = c.target(name)
	}
	if m := c.meters[name]; m != nil { // a nil pointer would be a meter
		o.Engine.Meter = m
	}
	if c.external != nil {
		o.Server, o.URL = nil, "nats://"+strings.Join(c.external.Addresses(i), ",nats://")
	}
	if c.links != nil {
		o.Server.Advertise, o.Server.Peers = c.links.Peers(i)
	}
	return o
}

// log writes what nodes log, where that is read.
func (c *nodes) log(line string, heard func(string)) {
	if heard != nil {
		heard(line)
	}
	if _, ok := c.t.(*testing.T); ok {
		fmt.Fprint(c.t.Output(), line)
	}
}

func (c *nodes) tables() string { return filepath.Join(c.dir, "tables") }

// open opens a node that is not open.
func (c *nodes) open(i int) (err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), clustertest.Patience)
	defer cancel()
	o := c.options(i)
	c.list[i], err = cluster.Open(ctx, filepath.Join(c.dir, o.Node), o)
	return err
}

func (c *nodes) close(i int) {
	c.t.Helper()
	if err := c.list[i].Close(); err != nil {
		c.t.Errorf("close node %d: %v", i, err)
	}
}

// reopen opens the node i again if it has lost its instance, as the supervisor of its process does. Tests whose nodes must all be open call it
// while they wait, because on a busy machine a node may stand still for longer than its lease.
func (c *nodes) reopen(i int) error {
	select {
	case <-c.list[i].Done():
		return errors.Join(c.list[i].Close(), c.open(i))
	default:
		return nil
	}
}

// openAll opens all nodes.
func (c *nodes) openAll() error {
	var errs [clustertest.Size]error
	var opening sync.WaitGroup
	for i := range c.list {
		opening.Go(func() { errs[i] = c.open(i) })
	}
	opening.Wait()
	return errors.Join(errs[:]...)
}

// closeAll closes the nodes at the same moment. They take the majority from each other, so the log may no longer respond to the last node.
func (c *nodes) closeAll() {
	c.t.Helper()
	var closing sync.WaitGroup
	for i, n := range c.list {
		if n == nil { // it did not open
			continue
		}
		closing.Go(func() {
			var unanswered *buffer.FailedError
			if err := n.Close(); err != nil && !errors.As(err, &unanswered) {
				c.t.Errorf("close node %d: %v", i, err)
			}
		})
	}
	closing.Wait()
}

// start opens three nodes.
func start(t testing.TB) *nodes { return startWith(t, false) }

// startWith opens three nodes, whose servers reach each other through links if that is asked for.
func startWith(t testing.TB, links bool) *nodes {
	t.Helper()
	return startNodes(t, links, func(*nodes) {})
}

// startNodes is startWith with a change of the nodes' options.
func startNodes(t testing.TB, links bool, change func(*nodes)) *nodes {
	t.Helper()
	for attempts := 1; ; attempts++ {
		c := &nodes{t: t, dir: t.TempDir()}
		change(c)
		var err error
		if c.peers, err = clustertest.FreeAddresses(); err == nil && links {
			c.links, err = clustertest.NewLinks(c.peers)
		}
		if err != nil {
			t.Fatal(err)
		}
		if links {
			t.Cleanup(c.links.Close)
		}
		if err = c.openAll(); err == nil {
			t.Cleanup(c.closeAll)
			return c
		}
		for _, n := range c.list {
			if n != nil {
				err = errors.Join(err, n.Close())
			}
		}
		if attempts == 10 || !strings.Contains(err.Error(), "address already in use") {
			t.Fatal(err)
		}
	}
}

// post sends an event and returns the status of the response.
func (c *nodes) post(i int, id string) int {
	c.t.Helper()
	source, err := c.list[i].Catalog().Source("web")
	if err != nil {
		c.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(c.t.Context(), http.MethodPost, "/stream/1/web/"+source.Secret, strings.NewReader(`{"id":"`+id+`"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.list[i].Handler().ServeHTTP(w, r)
	return w.Code
}

// get returns the body of a response as T.
func get[T any](t testing.TB, n *cluster.Node, path string) (body T) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("X-StorageApi-Token", "token")
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: got %v: %s, want no error", path, err, w.Body)
	}
	return body
}

type readiness struct {
	Node, Instance, Missing string
	Ready                   bool
	Adopting, Adopted       []string
}

var columns = mapping.Columns{mapping.Path("id", "id", mapping.RawString())}

// define makes the source at the first node, and waits until the engines of all have it.
func (c *nodes) define() {
	c.t.Helper()
	c.defineAt(c.list[0].Catalog())
	for _, n := range c.list {
		c.awaitSource(n)
	}
}

// awaitSource waits until a node accepts events of the source.
func (c *nodes) awaitSource(n *cluster.Node) {
	c.t.Helper()
	if err := clustertest.Eventually(func() error {
		source, err := n.Catalog().Source("web")
		if _, ok := n.Engine().SourceWithSecret("web", source.Secret); err == nil && !ok {
			err = errors.New("the engine does not have the source")
		}
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *nodes) defineAt(cat *catalog.Catalog) {
	c.t.Helper()
	task, err := cat.CreateSource(catalog.By{Type: "system"}, catalog.SourceSpec{ID: "web", Name: "web", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{{
		Name: "events", TableID: tableID, Columns: columns,
	}}})
	if err == nil {
		task, err = task.Wait(c.t.Context())
	}
	if err != nil || task.Status != catalog.Succeeded {
		c.t.Fatal(err, task.Failure)
	}
}

// ids returns the ids in the table, sorted.
func (c *nodes) ids() []string {
	c.t.Helper()
	var ids []string
	for row, err := range dir.Tables(c.tables()).Rows(tableID) {
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, row[0])
	}
	slices.Sort(ids)
	return ids
}

// A node that ends with rows on its disk, and stays away, loses its instance to another node, which brings its rows to the table. When
// it is back it has a new instance. A node that ended and returns at once keeps its instance.
func TestAnotherNodeTakesOver(t *testing.T) {
	t.Parallel()
	c := start(t)
	var want []string
	send := func(node, events int) {
		t.Helper()
		for range events {
			id := fmt.Sprintf("%04d", len(want))
			if status := c.post(node, id); status != http.StatusOK {
				t.Fatalf("event %s: status %d", id, status)
			}
			want = append(want, id)
		}
	}
	c.define()
	for i := range c.list {
		send(i, 5)
	}
	lost := get[readiness](t, c.list[0], "/readiness-check")
	if !lost.Ready || lost.Node != "a" || !strings.HasPrefix(lost.Instance, "a-") {
		t.Errorf("node a: %+v", lost)
	}
	if s := get[struct{ Sources []struct{ ID string } }](t, c.list[0], "/v1/branches/default/sources"); len(s.Sources) != 1 {
		t.Errorf("sources: %+v", s)
	}
	c.close(0)
	if err := clustertest.Eventually(func() error {
		for _, n := range c.list[1:] {
			if slices.Contains(get[readiness](t, n, "/readiness-check").Adopted, lost.Instance) {
				return nil
			}
		}
		return errors.New("no node has taken over")
	}); err != nil {
		t.Fatal(err)
	}
	if got := c.ids(); !slices.Equal(got, want[:5]) {
		t.Errorf("the table has %q, want %q", got, want[:5])
	}
	c.lease = time.Minute // the node is back in time the next time, even on a busy machine
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	if again := get[readiness](t, c.list[0], "/readiness-check"); again.Instance == lost.Instance {
		t.Errorf("node a has the instance that another node took over: %+v", again)
	}
	for i := range c.list {
		send(i, 5)
	}
	before := get[readiness](t, c.list[0], "/readiness-check")
	c.close(0)
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	if again := get[readiness](t, c.list[0], "/readiness-check"); again.Instance != before.Instance {
		t.Errorf("node a comes back as %q, before it was %q", again.Instance, before.Instance)
	}
	send(0, 5)
	for _, n := range c.list {
		if err := n.Engine().FlushAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.ids(); !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}

// A node whose server runs on its own waits for it, and works with it.
func TestServerOfItsOwn(t *testing.T) {
	t.Parallel()
	address, err := porttest.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	port := int(netip.MustParseAddrPort(address[0]).Port())
	s, err := server.NewServer(&server.Options{
		ServerName: "alone", Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &nodes{t: t, dir: t.TempDir(), peers: make([]string, clustertest.Size)}
	o := c.options(0)
	o.Server, o.URL, o.NATS.Replicas = nil, s.ClientURL(), 1
	waits := make(chan struct{})
	o.Logger = slog.New(slog.NewTextHandler(writer(func(line string) {
		if strings.Contains(line, "waits for a server") {
			close(waits)
		}
	}), nil))
	go func() {
		<-waits
		s.Start()
	}()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	if c.list[0], err = cluster.Open(ctx, filepath.Join(c.dir, "a"), o); err != nil {
		t.Fatal(err)
	}
	defer c.close(0)
	c.defineAt(c.list[0].Catalog())
	if status := c.post(0, "1"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if err := c.list[0].Ready(); err != nil {
		t.Error(err)
	}
	if err := c.list[0].Engine().FlushAll(t.Context()); err != nil {
		t.Error(err)
	}
	if got := c.ids(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the table has %q", got)
	}
}

// writer gets the log output, a line at a time.
type writer func(line string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// What is wrong with options is said before anything is done.
func TestValidate(t *testing.T) {
	c := &nodes{t: t, dir: t.TempDir(), peers: []string{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222"}}
	if err := c.options(0).Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*cluster.Options){
		"Node is":                func(o *cluster.Options) { o.Node = "a b" },
		"exclude each other":     func(o *cluster.Options) { o.URL = "nats://10.0.0.1" },
		"URL is required":        func(o *cluster.Options) { o.Server = nil },
		"Listen":                 func(o *cluster.Options) { o.Server.Listen = "10.0.0.4:6222" },
		"Staging is required":    func(o *cluster.Options) { o.Engine.Staging = nil },
		"Leases is":              func(o *cluster.Options) { o.Engine.Leases = buffertest.NewLeases().Process("a") },
		"Target is required":     func(o *cluster.Options) { o.Engine.Target = nil },
		"Lease is":               func(o *cluster.Options) { o.Lease = time.Second },
		"IngestURL":              func(o *cluster.Options) { o.API.IngestURL = "" },
		"MaxBodyBytes":           func(o *cluster.Options) { o.API.Auth, o.API.Ingest.MaxBodyBytes = nil, 1 },
		"natsdriver: Replicas ":  func(o *cluster.Options) { o.NATS.Replicas = 2 },
		"they are the cluster's": func(o *cluster.Options) { o.Catalog.Shared.Node = "a" },
		"BranchID":               func(o *cluster.Options) { o.Catalog.BranchID = -1 },
	} {
		o := c.options(0)
		change(&o)
		if _, err := cluster.Open(t.Context(), c.dir, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q: %v", want, err)
		}
	}
	if _, err := cluster.Open(t.Context(), "", c.options(0)); err == nil {
		t.Error("a node without a folder is open")
	}
}

// A node that is alone waits for the others until its context ends, and says so.
func TestAloneNodeWaits(t *testing.T) {
	t.Parallel()
	c := &nodes{t: t, dir: t.TempDir()}
	open := func() (err error) {
		if c.peers, err = clustertest.FreeAddresses(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = cluster.Open(ctx, c.dir, c.options(0))
		return err
	}
	err := open()
	for range 20 { // another process may have been given the address
		if err != nil && strings.Contains(err.Error(), "address already in use") {
			err = open()
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "0 of 2 other servers") {
		t.Errorf("got %v, want errors.Is(err, context.DeadlineExceeded) and strings.Contains(err.Error(), \"0 of 2 other servers\")", err)
	}
	o := c.options(0)
	o.Server, o.URL = nil, "nats://me:s3cret@"+c.peers[0]
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := cluster.Open(ctx, c.dir, o); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.peers[0]) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want errors.Is(err, context.DeadlineExceeded) and strings.Contains(err.Error(), c.peers[0]) and !strings.Contains(err.Error(), \"s3cret\")", err)
	}
	o.URL = "nats://me:s3/cret@" + c.peers[0]
	if _, err := cluster.Open(t.Context(), c.dir, o); err == nil || !strings.Contains(err.Error(), "Options.URL") || strings.Contains(err.Error(), "s3") {
		t.Errorf("got %v, want an error and strings.Contains(err.Error(), \"Options.URL\") and !strings.Contains(err.Error(), \"s3\")", err)
	}
}
