package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// sayAgain is how long the logger drops further warnings and errors of the same cause, because a server retries each route every second.
const sayAgain = time.Minute

// mostCauses is how many causes the logger keeps before it forgets the causes without a line for a minute.
const mostCauses = 1000

// logger passes on the lines that the server logs, without the secret. Of warnings and errors it passes on one line a minute and cause, and the rest at
// the debug level. It keeps the first fatal error, after which a start cannot succeed.
type logger struct {
	*slog.Logger
	clean *strings.Replacer
	peers []string
	fatal chan error

	mu   sync.Mutex
	said map[string]*line // by cause
}

// line is the state of a cause.
type line struct {
	at      time.Time // of the last line
	dropped int       // lines since then
}

func newLogger(l *slog.Logger, secret string, peers []string) *logger {
	_, escaped, _ := strings.Cut(url.UserPassword("", secret).String(), ":") // as in the address of a server
	return &logger{
		Logger: warnlog.Or(l), clean: strings.NewReplacer(secret, "***", escaped, "***"), peers: peers,
		fatal: make(chan error, 1), said: map[string]*line{},
	}
}

func (l *logger) text(format string, args []any) string {
	return l.clean.Replace(fmt.Sprintf(format, args...))
}

// Noticef logs each connection of the servers to each other, so it is not for operators.
func (l *logger) Noticef(format string, args ...any) { l.Debug("nats: " + l.text(format, args)) }
func (l *logger) Debugf(format string, args ...any)  { l.Debug("nats: " + l.text(format, args)) }
func (l *logger) Tracef(format string, args ...any)  { l.Debug("nats: " + l.text(format, args)) }

func (l *logger) Warnf(format string, args ...any)  { l.say(slog.LevelWarn, format, args) }
func (l *logger) Errorf(format string, args ...any) { l.say(slog.LevelError, format, args) }

// say logs a line at the level that the operator needs, unless a line of the same cause was logged less than a minute ago.
func (l *logger) say(level slog.Level, format string, args []any) {
	text := l.text(format, args)
	level = levelOf(level, text)
	var attrs []any
	if level >= slog.LevelWarn {
		dropped, again := l.count(l.cause(format, text))
		if !again {
			level = slog.LevelDebug
		} else if dropped > 0 {
			attrs = []any{"repeated", dropped}
		}
	}
	l.Log(context.Background(), level, "nats: "+text, attrs...)
}

// count reports whether a line of a cause is due, and how many were dropped since the last one.
func (l *logger) count(cause string) (dropped int, due bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.said[cause]
	if last != nil && now.Sub(last.at) < sayAgain {
		last.dropped++
		return 0, false
	}
	if last == nil {
		if len(l.said) >= mostCauses {
			maps.DeleteFunc(l.said, func(_ string, old *line) bool { return now.Sub(old.at) >= sayAgain })
		}
		last = &line{}
		l.said[cause] = last
	}
	dropped, last.at, last.dropped = last.dropped, now, 0
	return dropped, true
}

var (
	digits = regexp.MustCompile(`\d+`)
	verbs  = regexp.MustCompile(`%[-+#.\d]*[a-z]`)
	letter = regexp.MustCompile(`\pL`)
)

// cause is the same for lines that differ in attempts, in ports of connections and in names of streams. It differs by the other server that
// the line is about. Some formats of the server contain the name of a stream or the number of a connection, and some have no words.
func (l *logger) cause(format, text string) string {
	cause := format
	if !letter.MatchString(verbs.ReplaceAllString(format, "")) {
		cause = text
	}
	if _, tail, named := strings.Cut(cause, "] "); named { // Filestore [name] words
		cause = tail
	}
	cause = digits.ReplaceAllString(cause, "#")
	for _, peer := range l.peers {
		if strings.Contains(text, peer) {
			cause += " " + peer
		}
	}
	return cause
}

// levelOf corrects the level of a line. An error is for an operator to act on, and a warning is worth a look.
func levelOf(level slog.Level, text string) slog.Level {
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("Plaintext passwords detected"):
		return slog.LevelDebug // the password of the connection inside the process is random and never leaves the process
	case strings.HasPrefix(text, "Filestore [") && (has("] Stream state ") || has(" from index errored") || has(" state is outdated")):
		return slog.LevelInfo // after a kill the index is older than the blocks, and the server makes it again from them
	case has("Error trying to connect to route"), has("Stale Connection"), has("Error flushing"):
		return slog.LevelWarn // a different server is away, stops or was paused. This server connects again
	}
	return level
}

func (l *logger) Fatalf(format string, args ...any) {
	text := l.text(format, args)
	l.Error("nats: " + text)
	select {
	case l.fatal <- errors.New(text):
	default:
	}
}
