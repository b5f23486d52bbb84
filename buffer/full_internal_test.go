package buffer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

// A full disk is logged once a minute, with the calls that were refused since the last line.
func TestFullDiskIsLoggedOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	a := &admission{b: &Buffer{dir: "data", log: slog.New(slog.NewTextHandler(&log, nil))}}
	synctest.Test(t, func(*testing.T) {
		for range 150 { // one a second
			a.overloadsDisk.Add(1)
			a.noteFull(&OverloadError{Resource: "disk", Volume: "data", Free: 7})
			time.Sleep(time.Second)
		}
	})
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := []string{"refused_calls=1 ", "refused_calls=60 ", "refused_calls=60 "}
	if len(got) != len(want) {
		t.Fatalf("150 seconds of refusals have %d lines, want %d:\n%s", len(got), len(want), log.String())
	}
	for i, line := range got {
		if !strings.Contains(line, want[i]) || !strings.Contains(line, "free_bytes=7") {
			t.Errorf("line %d is %s, want %s and the free bytes", i, line, want[i])
		}
	}
}
