package pebblestore

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Logger returns the logger for pebble. It ends the opening where pebble expects the process to end.
func (s *FS) Logger(log *slog.Logger) pebble.Logger { return logger{log, s} }

type logger struct {
	log *slog.Logger
	fs  *FS
}

// Infof implements [pebble.Logger]. What pebble reports of its work is for its developers.
func (l logger) Infof(format string, args ...any) {
	l.log.Debug("store: " + fmt.Sprintf(format, args...))
}

// Errorf implements [pebble.Logger].
func (l logger) Errorf(format string, args ...any) {
	l.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf implements [pebble.Logger]. It must not return in pebble's contract. The opening ends, which has the same effect on the
// disk.
func (l logger) Fatalf(format string, args ...any) {
	l.fs.End(fmt.Errorf(format, args...))
}

// listener keeps pebble from calling Fatalf when it reads damaged bytes. The reader gets the error and decides. Each damaged file
// is logged once, and each error of a job in the background once a minute. found gets each damaged file, and failed is called after each such error.
func listener(log *slog.Logger, found func(error), failed func()) *pebble.EventListener {
	var files sync.Map // paths
	var mu sync.Mutex
	logged := map[string]time.Time{} // errors of jobs
	return &pebble.EventListener{
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			found(fmt.Errorf("%s: %w", info.Path, info.Details))
			if _, again := files.LoadOrStore(info.Path, true); !again {
				log.Error("store file damaged", "path", info.Path, "cause", info.Details, "next", "check the disk")
			}
		},
		BackgroundError: func(err error) {
			mu.Lock()
			last, again := logged[err.Error()]
			again = again && time.Since(last) < time.Minute
			if !again {
				if len(logged) >= 100 {
					clear(logged)
				}
				logged[err.Error()] = time.Now()
			}
			mu.Unlock()
			if !again {
				log.Error("background job of the store failed", "cause", err, "next", "it is retried automatically")
			}
			failed()
		},
	}
}
