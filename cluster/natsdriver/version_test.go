package natsdriver

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay/cluster/changelog"
)

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		server.VERSION: true, // what nodes embed
		"2.15.0":       true, "2.15.0-preview.1": true, "v2.15.7": true, "2.15": true, "2.100.0": true, "3.0.0": true, "2.16.0-dev": true,
		"2.14.99": false, "2.9.25": false, "2.2.0-beta.1": false, "1.4.1": false, "v2.14.0+build": false, "2.14": false,
		"": true, "weekly": true, "2": true, "2.x": true, "20260101": true,
	} {
		err := checkVersionOf(version)
		if (err == nil) != ok {
			t.Errorf("version %q: %v", version, err)
		}
		if err != nil && !strings.Contains(err.Error(), version) {
			t.Errorf("version %q is not named: %v", version, err)
		}
	}
}

// claims passes connections on to a server, and changes the version that the server names.
func claims(t *testing.T, to, version string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); _ = l.Close(); running.Wait() })
	pass := func(client, server net.Conn) {
		defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
		defer client.Close()
		defer server.Close()
		running.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
		from := bufio.NewReader(server)
		for {
			line, err := from.ReadString('\n')
			if strings.HasPrefix(line, "INFO ") { // the server says it again when something has changed
				line = strings.Replace(line, version0, `"version":"`+version+`"`, 1)
			}
			if _, writeErr := io.WriteString(client, line); err != nil || writeErr != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() { pass(client, server) })
		}
	})
	return "nats://" + l.Addr().String()
}

const version0 = `"version":"` + server.VERSION + `"`

// A server of an older version is refused when logs, owners or the journal are made, and when a log is opened on a connection that moved to an
// older server later.
func TestOldServerIsRefused(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	connect := func(version string) *nats.Conn {
		t.Helper()
		conn, err := nats.Connect(claims(t, s.Addr().String(), version))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		if got := conn.ConnectedServerVersion(); got != version {
			t.Fatalf("the server claims the version %s", got)
		}
		return conn
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "version 2.14.9, want 2.15 or later") {
			t.Errorf("%s: got %v, want an error and strings.Contains(err.Error(), \"version 2.14.9, want 2.15 or later\")", what, err)
		}
	}
	old := connect("2.14.9")
	_, err = NewLog(old, Options{})
	refused("NewLog", err)
	_, err = NewOwners(old, Options{})
	refused("NewOwners", err)
	_, err = NewJournal(old, Options{})
	refused("NewJournal", err)
	log, err := NewLog(connect("2.15.0"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	log.conn = old
	_, err = log.Open(t.Context(), "i", changelog.Record{Kind: changelog.Opened, Epoch: 1, Node: "a"})
	refused("Open", err)
}
