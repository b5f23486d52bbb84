package cluster_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/internal/porttest"
)

// servers are three servers of NATS that run on their own, as their users configure them. Nodes reach them through links.
type servers struct {
	t       *testing.T
	options [clustertest.Size]*server.Options
	list    [clustertest.Size]*server.Server
	links   *clustertest.Uplinks
}

func startServers(t *testing.T) *servers {
	t.Helper()
	addresses, err := porttest.Addresses(2 * clustertest.Size)
	if err != nil {
		t.Fatal(err)
	}
	clients, routes := addresses[:clustertest.Size], addresses[clustertest.Size:]
	port := func(address string) int {
		_, port, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(port)
		return n
	}
	s := &servers{t: t}
	for i := range s.options {
		o := &server.Options{
			ServerName: fmt.Sprint("server-", i), Host: "127.0.0.1", Port: port(clients[i]), NoSigs: true, NoLog: true,
			// Clients are not told of a way that is not theirs.
			Cluster:   server.ClusterOpts{Name: "external", Host: "127.0.0.1", Port: port(routes[i]), NoAdvertise: true},
			JetStream: true, StoreDir: filepath.Join(t.TempDir(), "jetstream"), JetStreamMaxStore: 4 << 30, SyncAlways: true,
		}
		for _, route := range routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: route})
		}
		s.options[i] = o
		s.start(i)
	}
	t.Cleanup(func() {
		for i := range s.list {
			s.stop(i)
		}
	})
	if s.links, err = clustertest.NewUplinks(clients); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.links.Close)
	return s
}

func (s *servers) start(i int) {
	s.t.Helper()
	started, err := server.NewServer(s.options[i].Clone())
	if err != nil {
		s.t.Fatal(err)
	}
	s.list[i] = started
	started.Start()
}

// stop ends a server without handing anything over.
func (s *servers) stop(i int) {
	s.list[i].Shutdown()
	s.list[i].WaitForShutdown()
}

// ready waits until a server has everything that it should have a copy of.
func (s *servers) ready(i int) {
	s.t.Helper()
	if err := clustertest.Eventually(func() error {
		if h := s.list[i].Healthz(&server.HealthzOptions{}); h.Error != "" {
			return errors.New(h.Error)
		}
		return nil
	}); err != nil {
		s.t.Fatalf("server %d: %v", i, err)
	}
}

// server returns the server that a node is connected to.
func (s *servers) server(r *traffic, node int) int {
	s.t.Helper()
	for i, address := range s.links.Addresses(node) {
		if strings.HasSuffix(r.node(node).Conn().ConnectedUrl(), address) {
			return i
		}
	}
	s.t.Fatalf("node %d is connected to no server", node)
	return 0
}

// Three nodes use three servers that run on their own. One server is lost, and comes back. The way from a node to the server that it uses is
// cut. A node reaches no server until another node has adopted its rows. Acknowledged rows arrive in the table once.
func TestExternalServers(t *testing.T) {
	t.Parallel()
	s := startServers(t)
	c := startNodes(t, false, func(c *nodes) { c.external = s.links })
	r := sendTo(t, c)

	lost := s.server(r, 0)
	s.stop(lost)
	r.mark()
	r.awaitProgress(10, 0, 1, 2)
	s.start(lost)
	s.ready(lost)
	t.Log("a server was lost and is back")

	cut := s.server(r, 1)
	if err := s.links.Cut(1, cut); err != nil {
		t.Fatal(err)
	}
	r.mark()
	r.awaitProgress(10, 0, 1, 2)
	if after := s.server(r, 1); after == cut {
		t.Errorf("the node goes on with server %d, which it cannot reach", cut)
	}
	t.Log("the way to a server was cut")
	if err := s.links.Heal(); err != nil {
		t.Fatal(err)
	}

	before := r.readiness(2).Instance
	for i := range s.list {
		if err := s.links.Cut(2, i); err != nil {
			t.Fatal(err)
		}
	}
	r.mark()
	r.awaitProgress(10, 0, 1)
	r.awaitAdopted(2, before)
	if since := r.mark(); since[2] > 0 {
		t.Errorf("a node that reaches no server acknowledged %d events", since[2])
	}
	if err := s.links.Heal(); err != nil {
		t.Fatal(err)
	}
	r.mark()
	r.awaitProgress(10, 0, 1, 2)
	if after := r.readiness(2).Instance; after == before {
		t.Errorf("the node still has the instance %s, which another one has taken over", before)
	}
	r.verify()
}
