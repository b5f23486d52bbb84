// Package warnlog provides the default logger of options.
package warnlog

import (
	"context"
	"log/slog"
)

// Or returns the given logger. For nil it returns a logger that passes warnings and errors to [slog.Default], so that a failing target is
// visible without any configuration. It drops lower levels, because a library does not report its progress unasked.
func Or(given *slog.Logger) *slog.Logger {
	if given != nil {
		return given
	}
	return slog.New(handler{slog.Default().Handler()})
}

type handler struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
