package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay/internal/synctest"
)

// Servers that are away for an hour fill no log. Each kind of trouble is said once a minute, whatever ports the errors name, and at once
// after a connection.
func TestLogOfALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs strings.Builder
		l := &connectionLog{log: slog.New(slog.NewTextHandler(&logs, nil))}
		for i := range 3600 {
			l.failed(fmt.Errorf("read tcp 127.0.0.1:%d: connection reset by peer", i))
			if i%2 == 0 {
				l.failed(fmt.Errorf("server: %w", nats.ErrAuthRevoked))
			}
			time.Sleep(time.Second)
		}
		if other, refused := strings.Count(logs.String(), "server not reachable"), strings.Count(logs.String(), "refuses the user"); other != 60 || refused != 60 {
			t.Errorf("got %d and %d lines in an hour, want 60 and 60", other, refused)
		}
		logs.Reset()
		l.failed(errors.New("first"))
		l.connected(&nats.Conn{})
		l.failed(errors.New("second"))
		if got := logs.String(); !strings.Contains(got, "first") || !strings.Contains(got, "second") {
			t.Errorf("logged\n%s", got)
		}
	})
}
