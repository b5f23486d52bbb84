package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/forebay/forebay/internal/warnlog"
)

// logger passes on what the server logs, without the secret. It keeps the first fatal error, after which a start cannot succeed.
type logger struct {
	*slog.Logger
	clean *strings.Replacer
	fatal chan error
}

func newLogger(l *slog.Logger, secret string) *logger {
	_, escaped, _ := strings.Cut(url.UserPassword("", secret).String(), ":") // as in the address of a server
	return &logger{warnlog.Or(l), strings.NewReplacer(secret, "***", escaped, "***"), make(chan error, 1)}
}

func (l *logger) text(format string, args []any) string {
	return l.clean.Replace(fmt.Sprintf(format, args...))
}

// Noticef logs each connection of the servers to each other, so it is not for operators.
func (l *logger) Noticef(format string, args ...any) { l.Debug("nats: " + l.text(format, args)) }
func (l *logger) Warnf(format string, args ...any)   { l.Warn("nats: " + l.text(format, args)) }
func (l *logger) Errorf(format string, args ...any)  { l.Error("nats: " + l.text(format, args)) }
func (l *logger) Debugf(format string, args ...any)  { l.Debug("nats: " + l.text(format, args)) }
func (l *logger) Tracef(format string, args ...any)  { l.Debug("nats: " + l.text(format, args)) }

func (l *logger) Fatalf(format string, args ...any) {
	text := l.text(format, args)
	l.Error("nats: " + text)
	select {
	case l.fatal <- errors.New(text):
	default:
	}
}
