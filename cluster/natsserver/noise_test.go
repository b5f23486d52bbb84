package natsserver_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
)

// Two servers that are away give the third one no line at the level ERROR, and one WARN line for each of them at most. Its start gives no
// warning about its passwords.
func TestServersThatAreAwayAreOneLineEach(t *testing.T) {
	// Of two servers one connects to the other, and which one is drawn at their start. Only that one connects again later. So the cluster is started again
	// until the first server is the one for at least one of its peers.
	for range 10 {
		if serversAreAway(t) || t.Failed() {
			return
		}
	}
	t.Error("the first of three servers never tries to connect again")
}

// serversAreAway checks the log of a server whose two peers stop. It returns false if the server does not try to connect to them again.
func serversAreAway(t *testing.T) (tries bool) {
	t.Helper()
	var out, all logs
	c, err := clustertest.Start(func(o *natsserver.Options) {
		// The other servers do not know the address of the first one, which therefore mostly opens the connections.
		if o.Name != "a" {
			o.Peers = append([]string{"127.0.0.1:1"}, o.Peers[1:]...)
		} else {
			o.Logger = slog.New(slog.NewMultiHandler(
				slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}),
				slog.NewTextHandler(&all, &slog.HandlerOptions{Level: slog.LevelDebug}),
			))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := 1; i < clustertest.Size; i++ {
		if err := c.StopServer(i); err != nil {
			t.Fatal(err)
		}
	}
	const route = "Error trying to connect to route"
	stopped := time.Now()
	attempts := func(text, peer string) (lines int) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, route) && strings.Contains(line, peer) {
				lines++
			}
		}
		return lines
	}
	tried := func(least int) bool {
		for i := 1; i < clustertest.Size; i++ {
			if attempts(all.String(), c.Options(i).Listen) >= least {
				return true
			}
		}
		return false
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !tried(5) {
		if time.Since(stopped) > 20*time.Second {
			return false
		}
		<-tick.C
	}
	minutes := 1 + int(time.Since(stopped)/time.Minute)
	for i := 1; i < clustertest.Size; i++ {
		peer := c.Options(i).Listen
		if n, lines := attempts(all.String(), peer), attempts(out.String(), peer); lines > minutes || n > 0 && lines == 0 {
			t.Errorf("server %s is away: got %d lines at the level WARN or above of %d attempts, want 1 to %d:\n%s", peer, lines, n, minutes, out.String())
		}
	}
	for _, unwanted := range []string{"level=ERROR", "Plaintext"} {
		if strings.Contains(out.String(), unwanted) {
			t.Errorf("the log has %q:\n%s", unwanted, out.String())
		}
	}
	if !strings.Contains(all.String(), "Plaintext") {
		t.Error("the server no longer warns of its passwords; the level needs no correction")
	}
	return true
}
