package natsserver_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// linked starts servers that reach each other through links.
func linked(t *testing.T) (*clustertest.Cluster, *clustertest.Links) {
	t.Helper()
	c, links, err := clustertest.StartLinked()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(links.Close)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, links
}

// A server that lacks most of a stream closes within seconds, and catches up after the next start.
func TestCloseWhileCatchingUp(t *testing.T) {
	c, links := linked(t)
	const messages, kilobytes, rate = 500, 16, 80
	conn, err := c.Connect(0)
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
	stored := func(server, want int) {
		t.Helper()
		if err := clustertest.Eventually(func() error {
			if n, err := natsserver.Stored(c.Server(server)); err != nil || int(n) < want {
				return fmt.Errorf("server %d has %d of %d messages: %w", server, n, want, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	const behind = 2
	if err := clustertest.Eventually(c.Server(behind).Ready); err != nil {
		t.Fatal(err)
	}
	if err := c.StopServer(behind); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, kilobytes<<10)
	_, _ = rand.Read(data) // servers compress
	for i := range messages {
		if err := clustertest.Eventually(func() error {
			_, err := js.Publish(t.Context(), "s", data, jetstream.WithMsgID(strconv.Itoa(i)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for other := range behind {
		stored(other, messages)
	}
	// A new leader makes a snapshot of the state. A server without the messages before the snapshot asks the leader for them.
	if err := clustertest.Eventually(func() error {
		_, err := conn.Request("$JS.API.STREAM.LEADER.STEPDOWN.s", nil, nats.DefaultTimeout)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(links.Slow(0, behind, rate), links.Slow(1, behind, rate)); err != nil {
		t.Fatal(err)
	}
	if err := c.StartServer(behind); err != nil {
		t.Fatal(err)
	}
	stored(behind, 1)
	began := time.Now()
	if err := c.StopServer(behind); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("Close took %s", took)
	if took > 12*time.Second { // 3 s, and 30 s to minutes if it waits for the stream
		t.Errorf("Close took %s", took)
	}
	if err := links.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := c.StartServer(behind); err != nil {
		t.Fatal(err)
	}
	stored(behind, messages)
}
