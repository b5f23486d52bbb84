package natsserver_test

import (
	"fmt"
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
	var out, all logs
	c, err := clustertest.Start(func(o *natsserver.Options) {
		// A server reconnects only to servers that it connected to earlier. The first server had connected to both other servers, which do not know its
		// address.
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
	for i := 1; i < clustertest.Size; i++ {
		peer := c.Options(i).Listen
		if err := clustertest.Eventually(func() error {
			if n := attempts(all.String(), peer); n < 5 {
				return fmt.Errorf("the server reported %d attempts to connect to %s", n, peer)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	minutes := 1 + int(time.Since(stopped)/time.Minute)
	for i := 1; i < clustertest.Size; i++ {
		peer := c.Options(i).Listen
		if lines := attempts(out.String(), peer); lines < 1 || lines > minutes {
			t.Errorf("server %s is away: got %d lines at the level WARN or above, want 1 to %d:\n%s", peer, lines, minutes, out.String())
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
}
