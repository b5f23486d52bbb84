package buffer

import (
	"fmt"
	"log/slog"
)

// storeLogger passes what the store says to the user's logger.
type storeLogger struct{ log *slog.Logger }

// Infof implements the store's logger. The store's routine news is for its developers.
func (l storeLogger) Infof(format string, args ...any) {
	l.log.Debug("store: " + fmt.Sprintf(format, args...))
}

// Errorf implements the store's logger.
func (l storeLogger) Errorf(format string, args ...any) {
	l.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf implements the store's logger. The store calls it when it cannot go on and expects the process to end. A
// library must not end its host: the panic is caught at the calls that write.
func (l storeLogger) Fatalf(format string, args ...any) {
	panic(storeFailure{fmt.Errorf(format, args...)})
}
