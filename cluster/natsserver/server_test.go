package natsserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/nats-io/nats.go"
)

const secret = "never-to-be-seen"

// logs is what servers have logged.
type logs struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func start(t *testing.T, out *logs) *clustertest.Cluster {
	t.Helper()
	c, err := clustertest.Start(func(o *natsserver.Options) {
		o.Secret = secret
		o.Logger = slog.New(slog.NewTextHandler(out, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestClusterForms(t *testing.T) {
	var out logs
	c := start(t, &out)
	for i := range clustertest.Size {
		if err := clustertest.Eventually(c.Server(i).Ready); err != nil {
			t.Fatal(err)
		}
		conn, err := c.Connect(i)
		if err != nil {
			t.Fatal(err)
		}
		if conn.ConnectedAddr() != "pipe" {
			t.Errorf("the connection goes to %q, want one inside of the process", conn.ConnectedAddr())
		}
		conn.Close()
		// There is a port for clients too, but the password for it does not leave the process.
		url := natsserver.ClientURL(c.Server(i))
		for _, option := range []nats.Option{nats.Name("without"), nats.UserInfo("forebay", secret)} {
			if conn, err := nats.Connect(url, option, nats.Timeout(clustertest.Patience)); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("a connection from outside = %v, %v, want that it is refused", conn, err)
			}
		}
	}

	if err := c.Server(0).Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Server(0).Close(); err != nil {
		t.Errorf("a second Close = %v", err)
	}
	if text := out.String(); strings.Contains(text, secret) || !strings.Contains(text, "JetStream") {
		t.Errorf("the log has the secret, or nothing:\n%s", text)
	}
}

// Servers that listen at all addresses meet at the addresses that they advertise.
func TestServersAdvertise(t *testing.T) {
	c, err := clustertest.Start(func(o *natsserver.Options) {
		_, port, _ := net.SplitHostPort(o.Listen)
		o.Listen, o.Advertise = "0.0.0.0:"+port, o.Listen
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range clustertest.Size {
		if err := clustertest.Eventually(c.Server(i).Ready); err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A server that the others hear, but that does not hear them, breaks its connections soon. Until then it disturbs every election.
func TestDeafServerBreaksItsConnections(t *testing.T) {
	c, links := linked(t)
	if err := clustertest.Eventually(c.Server(0).Ready); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(links.Cut(1, 0), links.Cut(2, 0)); err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	if err := clustertest.Eventually(func() error {
		if n := natsserver.Others(c.Server(0)); n > 0 {
			return fmt.Errorf("%d other servers are connected", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(cut)
	t.Logf("the connections broke after %s", took)
	if took > 40*time.Second { // 10 to 15 s, and 60 to 90 s with the default of a server
		t.Errorf("the connections broke after %s", took)
	}
}

// alone returns the options of a server whose peers are not there.
func alone(t *testing.T) natsserver.Options {
	peers, err := clustertest.FreeAddresses()
	if err != nil {
		t.Fatal(err)
	}
	return natsserver.Options{Name: "a", Dir: t.TempDir(), Listen: peers[0], Peers: peers, Secret: secret}
}

// A new cluster needs all its servers once. Start ends with ctx and gives the reason why it waited.
func TestStartSaysWhatItWaitsFor(t *testing.T) {
	start := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := natsserver.Start(ctx, alone(t))
		return err
	}
	err := start()
	for range 20 { // another process may have been given the address
		if err != nil && strings.Contains(err.Error(), "address already in use") {
			err = start()
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "0 of 2 other servers are connected") {
		t.Errorf("Start without peers = %v, want the end of the context and the number of servers", err)
	}
}

func TestStartFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(*natsserver.Options){
		"address already in use": func(o *natsserver.Options) { o.Listen = taken.Addr().String(); o.Peers[0] = o.Listen },
		"not a directory":        func(o *natsserver.Options) { o.Dir = file },
	} {
		o := alone(t)
		edit(&o)
		ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
		_, err := natsserver.Start(ctx, o)
		cancel()
		if err == nil || !strings.Contains(err.Error(), what) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start = %v, want that it contains %q", err, what)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error has the secret: %v", err)
		}
	}
}

func TestValidate(t *testing.T) {
	o := alone(t)
	if err := o.Validate(); err != nil {
		t.Errorf("Validate = %v", err)
	}
	err := natsserver.Options{Name: "a b", Listen: "1.2.3.4", Advertise: "z", Peers: []string{"x:1", "y:2"}, MaxStore: -1}.Validate()
	for _, want := range []string{`"a b"`, "Dir", `"1.2.3.4"`, `"z"`, "2 addresses", "contain Advertise", "Secret", "MaxStore"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want that it names %s", err, want)
		}
	}
	err = natsserver.Options{Listen: "forebay:p@ss@h:port", Peers: []string{"nats://forebay:p@ss@h:x"}}.Validate()
	if err == nil || strings.Contains(err.Error(), "ss@") || strings.Contains(err.Error(), "forebay:p") || !strings.Contains(err.Error(), "***@h:") {
		t.Errorf("Validate = %v, want the addresses without what may be a password", err)
	}
}
