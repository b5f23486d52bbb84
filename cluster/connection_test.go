package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/driver"
)

// The servers refuse the user of a node, before it is open and afterwards, more often than the client of NATS would try. The node says why it
// waits, and continues when the user is accepted again.
func TestServersRefuseTheUser(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	settings := func(password string) *server.Options {
		return &server.Options{
			ServerName: "alone", Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: store, SyncAlways: true, NoSigs: true, NoLog: true,
			Users: []*server.User{{Username: "me", Password: password}},
		}
	}
	s, err := server.NewServer(settings("another"))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(clustertest.Patience) {
		t.Fatal("the server is not ready")
	}
	accept := func(password string) {
		t.Helper()
		if err := s.ReloadOptions(settings(password)); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var logs strings.Builder
	refused := func() int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(logs.String(), "refuses the user")
	}
	await := func(what string, is func() bool) {
		t.Helper()
		if err := clustertest.Eventually(func() error {
			if !is() {
				return context.DeadlineExceeded
			}
			return nil
		}); err != nil {
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("got %s: %v\n%s\nwant no error", what, err, &logs)
		}
	}
	// Each refusal counts as an attempt of the server.
	attempts := func(more uint64) func() bool {
		total := func() uint64 {
			v, err := s.Varz(nil)
			if err != nil {
				t.Error(err)
				return 0
			}
			return v.TotalConnections
		}
		before := total()
		return func() bool { return total() >= before+more }
	}

	c := &nodes{t: t, dir: t.TempDir(), peers: make([]string, clustertest.Size)}
	o := c.options(0)
	o.Server, o.URL, o.NATS.Replicas = nil, strings.Replace(s.ClientURL(), "://", "://me:secret-of-mine@", 1), 1
	o.Logger = slog.New(slog.NewTextHandler(writer(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		logs.WriteString(line)
	}), nil))
	open := func() (opened chan error, stop func()) {
		ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
		opened = make(chan error, 1)
		go func() {
			var err error
			c.list[0], err = cluster.Open(ctx, filepath.Join(c.dir, "a"), o)
			opened <- err
		}()
		return opened, cancel
	}
	opened, stop := open()
	await("the node says that it is refused", func() bool { return refused() > 0 })
	stop()
	if err := <-opened; !errors.Is(err, context.Canceled) || !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("Open = %v, want that it was refused until it was stopped", err)
	}
	opened, stop = open()
	defer stop()
	await("the node tries again", attempts(3))
	accept("secret-of-mine")
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer c.close(0)
	c.defineAt(c.list[0].Catalog())
	if status := c.post(0, "1"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}

	connections, err := s.Connz(nil)
	if err != nil || len(connections.Conns) == 0 {
		t.Fatalf("the connections of the server: %v, %v, want one of the node", connections, err)
	}
	if got, want := connections.Conns[0].Name, driver.Product()+" "+o.Node; got != want {
		t.Errorf("the server has a connection of %q, want %q", got, want)
	}

	before := refused()
	accept("another")
	await("the node says that it is refused", func() bool { return refused() > before })
	await("the node tries again", attempts(3))
	accept("secret-of-mine")
	await("the node takes events", func() bool { return c.post(0, "2") == http.StatusOK })
	mu.Lock()
	defer mu.Unlock()
	if text := logs.String(); strings.Contains(text, "secret-of-mine") {
		t.Errorf("the password is logged:\n%s", text)
	}
}
