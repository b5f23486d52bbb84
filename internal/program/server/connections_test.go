package server

import (
	"bytes"
	"log/slog"
	"testing"
)

func TestConnectionsLeaveHandlesForTheStore(t *testing.T) {
	for _, tt := range []struct {
		wanted  int
		handles uint64
		want    int
	}{
		{20_000, 0, 20_000},
		{20_000, 1 << 20, 20_000},
		{20_000, 20_000, 20_000 - ownHandles},
		{100, 1024, 100},
		{20_000, 1024, 512},
		{20_000, 1<<64 - 1, 20_000},
	} {
		var log bytes.Buffer
		got := eventConnections(tt.wanted, tt.handles, slog.New(slog.NewTextHandler(&log, nil)))
		if got != tt.want || (log.Len() > 0) != (got < tt.wanted) {
			t.Errorf("%d connections with %d handles: got %d, want %d; logged %q", tt.wanted, tt.handles, got, tt.want, &log)
		}
	}
}
