package natsserver_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// awaitHeard waits until the first server has heard both others.
func awaitHeard(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	if err := clustertest.Eventually(func() error {
		if heard := c.Server(0).Heard(); heard < clustertest.Size-1 {
			return fmt.Errorf("the server has heard %d others", heard)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A server whose two peers have stopped takes part in elections again when the first of them starts, which waits for that.
func TestPeersThatStopAndStart(t *testing.T) {
	c, _ := linked(t)
	awaitHeard(t, c)
	var stopping sync.WaitGroup // at once, because a server that misses the first one for long expects no majority without it
	for i := 1; i < clustertest.Size; i++ {
		stopping.Go(func() {
			if err := c.StopServer(i); err != nil {
				t.Errorf("stop server %d: got %v, want no error", i, err)
			}
		})
	}
	stopping.Wait()
	if err := clustertest.Eventually(func() error {
		if err := c.Server(0).Ready(); err == nil || !strings.Contains(err.Error(), "takes no part in elections") {
			return fmt.Errorf("Ready = %v, want that it takes no part in elections", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < clustertest.Size; i++ {
		if err := c.StartServer(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := clustertest.Eventually(c.Server(0).Ready); err != nil {
		t.Error(err)
	}
}

// A server that hears no other one stops its part in elections, whether the others hear it or not. When it hears them again, it has everything that
// they have stored meanwhile.
func TestServerThatHearsNoMajority(t *testing.T) {
	c, links := linked(t)
	conn, err := c.Connect(1)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := clustertest.Eventually(func() error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}, Replicas: clustertest.Size})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	publish := func() {
		t.Helper()
		if err := clustertest.Eventually(func() error {
			_, err := js.Publish(t.Context(), "s", nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for name, cut := range map[string]func() error{
		"deaf":    func() error { return errors.Join(links.Cut(1, 0), links.Cut(2, 0)) },
		"cut off": func() error { return errors.Join(links.Cut(1, 0), links.Cut(2, 0), links.Cut(0, 1), links.Cut(0, 2)) },
	} {
		publish()
		awaitHeard(t, c)
		if err := cut(); err != nil {
			t.Fatal(err)
		}
		if err := clustertest.Eventually(func() error {
			if err := c.Server(0).Ready(); err == nil || !strings.Contains(err.Error(), "takes no part in elections") {
				return fmt.Errorf("%s: Ready = %v, want that it takes no part in elections", name, err)
			}
			if c.Server(0).Votes() {
				return fmt.Errorf("%s: the server takes part in elections", name)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		publish()
		if err := links.Heal(); err != nil {
			t.Fatal(err)
		}
		if err := clustertest.Eventually(c.Server(0).Ready); err != nil {
			t.Fatalf("%s and healed: got %v, want that the server is ready", name, err)
		}
	}
	publish()
	own, err := c.Connect(0)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := clustertest.Eventually(func() error { // its copy may lead, and has all messages
		_, err := conn.Request("$JS.API.STREAM.LEADER.STEPDOWN.s", []byte(`{"placement":{"preferred":"a"}}`), clustertest.Patience/30)
		if err == nil {
			var s jetstream.Stream
			if s, err = js.Stream(t.Context(), "s"); err == nil {
				if i := s.CachedInfo(); i.Cluster.Leader != "a" || i.State.Msgs < 5 {
					err = fmt.Errorf("server %s leads %d messages, want a and at least 5", i.Cluster.Leader, i.State.Msgs)
				}
			}
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
