package warnlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestOr: without a logger, warnings and errors go to slog.Default, with its attributes and groups. A given logger is returned as it is.
func TestOr(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))

	for _, log := range []*slog.Logger{Or(nil), Or(nil).With("a", 1), Or(nil).WithGroup("g")} {
		out.Reset()
		log.Debug("debug")
		log.Info("info")
		log.Warn("warning", "b", 2)
		log.Error("error")
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "msg=warning") || !strings.Contains(got, "msg=error") {
			t.Errorf("the default logger got %q, want the warning and the error", got)
		}
	}
	out.Reset()
	silent := slog.New(slog.DiscardHandler)
	if Or(silent) != silent {
		t.Error("Or(logger) is a different logger, want the given one")
	}
	if Or(silent).Error("error"); out.Len() > 0 {
		t.Errorf("a silent logger wrote %q", out.String())
	}
}
