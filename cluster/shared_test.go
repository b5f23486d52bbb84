package cluster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// startServer runs one server, and returns its URL.
func startServer(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "alone", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(clustertest.Patience) {
		t.Fatal("the server is not ready")
	}
	return s.ClientURL()
}

// A node does not take an empty journal or store of owners for the journal or store that it has used.
func TestLostJournalIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	url := startServer(t)
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	c := &nodes{t: t, dir: t.TempDir(), peers: make([]string, clustertest.Size)}
	open := func(i int) error {
		o := c.options(i)
		o.Server, o.URL, o.NATS.Replicas = nil, url, 1
		ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
		defer cancel()
		n, err := cluster.Open(ctx, filepath.Join(c.dir, o.Node), o)
		if err != nil {
			return err
		}
		return n.Close()
	}
	for _, lost := range []struct{ stream, what string }{
		{"FB_main_catalog", "the journal of definitions"},
		{"KV_FB_main_own", "the store of owners"},
	} {
		if err := open(0); err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteStream(t.Context(), lost.stream); err != nil {
			t.Fatal(err)
		}
		if err := open(0); !errors.Is(err, changelog.ErrMissing) || !strings.Contains(err.Error(), lost.what+" is lost") {
			t.Errorf("without %s: %v", lost.what, err)
		}
		if _, err := js.Stream(t.Context(), lost.stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("%s is there again: %v", lost.what, err)
		}
		if err := open(1); err != nil { // with an empty disk, so it cannot know
			t.Fatal(err)
		}
		if err := open(0); !errors.Is(err, changelog.ErrMissing) || !strings.Contains(err.Error(), lost.what+" was made again") {
			t.Errorf("with another node's %s: %v", lost.what, err)
		}
		for _, node := range []string{"a", "b"} { // as the error says
			if err := os.RemoveAll(filepath.Join(c.dir, node)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
