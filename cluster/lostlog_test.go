package cluster_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// server is the folder of a node's server.
func (c *nodes) server(i int) string { return filepath.Join(c.dir, c.options(i).Node, "nats") }

func (c *nodes) instances() (names []string) {
	for _, n := range c.list {
		names = append(names, get[readiness](c.t, n, "/readiness-check").Instance)
	}
	return names
}

// sender posts events with increasing ids, and keeps them.
type sender struct {
	*nodes
	want []string
}

func (s *sender) send(node, events int) {
	s.t.Helper()
	for range events {
		id := fmt.Sprintf("%04d", len(s.want))
		if status := s.post(node, id); status != http.StatusOK {
			s.t.Fatalf("event %s: status %d", id, status)
		}
		s.want = append(s.want, id)
	}
}

// expect flushes all nodes and compares the table.
func (s *sender) expect() {
	s.t.Helper()
	for _, n := range s.list {
		if err := n.Engine().FlushAll(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
	if got := s.ids(); !slices.Equal(got, s.want) {
		s.t.Errorf("the table has %q, want %q", got, s.want)
	}
}

// The stream of a node's log is deleted while the node is away, and again while it runs. It continues with another stream and all its rows,
// and the next node that takes over reads that.
func TestStreamIsDeleted(t *testing.T) {
	t.Parallel()
	c := startNodes(t, false, func(c *nodes) { c.lease = 20 * time.Second }) // the node returns in time, even on a busy machine
	c.define()
	s := &sender{nodes: c}
	s.send(0, 10)
	instance := c.instances()[0]
	remove := func(stream string) {
		js, err := jetstream.New(c.list[1].Conn())
		if err == nil {
			err = js.DeleteStream(t.Context(), stream)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := "FB_main_L_" + instance
	c.close(0)
	remove(first)
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	if now := c.instances()[0]; now != instance {
		t.Fatalf("node a has instance %s, want %s", now, instance)
	}
	c.awaitSource(c.list[0])
	s.send(0, 10)

	remove(first + "_g1")
	n := c.list[0]
	s.post(0, "unknown") // the node looks into its log
	if err := clustertest.Eventually(func() error {
		select {
		case <-n.Done():
			return nil
		default:
			return errors.New("the node goes on without its log")
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(n.Err(), changelog.ErrMissing) {
		t.Errorf("the node has ended: %v", n.Err())
	}
	_ = n.Close() // it says that the outcome of one event is unknown
	c.lease = 0   // the node does not return the next time
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	c.awaitSource(c.list[0])
	s.send(0, 10)

	// Its machine is lost.
	c.close(0)
	if err := os.RemoveAll(filepath.Join(c.dir, c.options(0).Node)); err != nil {
		t.Fatal(err)
	}
	if err := clustertest.Eventually(func() error {
		for _, n := range c.list[1:] {
			if slices.Contains(get[readiness](t, n, "/readiness-check").Adopted, instance) {
				return nil
			}
		}
		return errors.New("no node has taken over")
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.open(0); err != nil {
		t.Fatal(err)
	}
	// The event without a response was on the disk of its node.
	if got := slices.DeleteFunc(c.ids(), func(id string) bool { return id == "unknown" }); !slices.Equal(got, s.want) {
		t.Errorf("the table has %q, want %q", got, s.want)
	}
	js, err := jetstream.New(c.list[1].Conn())
	if err != nil {
		t.Fatal(err)
	}
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		if strings.HasPrefix(name, first) {
			t.Errorf("stream %s is left", name)
		}
	}
	if names.Err() != nil {
		t.Error(names.Err())
	}
}

// The disks of all servers are put back to an older state: logs, records of owners, definitions. The nodes have their own disks.
func TestServersAreRestored(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.define()
	s := &sender{nodes: c}
	for i := range c.list {
		s.send(i, 10)
	}
	instances := c.instances()
	c.closeAll()
	backup := t.TempDir()
	for i := range c.list {
		if err := os.CopyFS(filepath.Join(backup, c.options(i).Node), os.DirFS(c.server(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.openAll(); err != nil {
		t.Fatal(err)
	}
	for i := range c.list {
		c.awaitSource(c.list[i])
		s.send(i, 10)
	}
	c.closeAll()
	for i := range c.list {
		if err := errors.Join(os.RemoveAll(c.server(i)), os.CopyFS(c.server(i), os.DirFS(filepath.Join(backup, c.options(i).Node)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.openAll(); err != nil {
		t.Fatal(err)
	}
	if now := c.instances(); !slices.Equal(now, instances) {
		t.Errorf("the nodes have the instances %q, before %q", now, instances)
	}
	for i := range c.list {
		c.awaitSource(c.list[i])
		s.send(i, 10)
	}
	s.expect()
}

// The disks of all servers are lost. Definitions and the records of lost nodes are gone with them, so the nodes do not open before an
// operator has removed their notes about the servers. Then they continue with their instances, and no row is lost.
func TestServersAreWiped(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.define()
	s := &sender{nodes: c}
	for i := range c.list {
		s.send(i, 10)
	}
	instances := c.instances()
	c.closeAll()
	for i := range c.list {
		if err := os.RemoveAll(c.server(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.openAll(); !errors.Is(err, changelog.ErrMissing) || !strings.Contains(err.Error(), "shared") {
		t.Fatalf("got %v, want errors.Is(err, changelog.ErrMissing) and strings.Contains(err.Error(), \"shared\")", err)
	}
	for i := range c.list {
		if err := os.Remove(filepath.Join(c.dir, c.options(i).Node, "shared")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.openAll(); err != nil {
		t.Fatal(err)
	}
	if now := c.instances(); !slices.Equal(now, instances) {
		t.Errorf("the nodes have the instances %q, before %q", now, instances)
	}
	c.define()
	for i := range c.list {
		s.send(i, 10)
	}
	s.expect()
}
