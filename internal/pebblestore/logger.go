package pebblestore

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Logger returns the logger of the opening: it passes what the store says to log, and ends the opening where the store
// expects the process to end.
func (s *FS) Logger(log *slog.Logger) pebble.Logger { return logger{log, s} }

type logger struct {
	log *slog.Logger
	fs  *FS
}

// Infof implements [pebble.Logger]. The store's routine news is for its developers.
func (l logger) Infof(format string, args ...any) {
	l.log.Debug("store: " + fmt.Sprintf(format, args...))
}

// Errorf implements [pebble.Logger].
func (l logger) Errorf(format string, args ...any) {
	l.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf implements [pebble.Logger]. The store calls it when it cannot go on and expects the process to end: this
// opening ends instead.
func (l logger) Fatalf(format string, args ...any) {
	l.fs.End(fmt.Errorf(format, args...))
}

// Listener returns what keeps the store from calling Fatalf when it reads damaged bytes: the reader gets the error and
// decides. Every damaged file is logged once, however often it is read.
func Listener(log *slog.Logger) *pebble.EventListener {
	var known sync.Map // paths
	return &pebble.EventListener{DataCorruption: func(info pebble.DataCorruptionInfo) {
		if _, again := known.LoadOrStore(info.Path, true); again {
			return
		}
		log.Error("store: damaged file", "path", info.Path, "error", info.Details)
	}}
}
