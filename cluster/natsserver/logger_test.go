package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

// A server's messages may contain the addresses of others, with the secret as it stands in an address.
func TestSecretIsNotLogged(t *testing.T) {
	const secret = "p@ss/word %41"
	var out strings.Builder
	l := newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), secret, nil)
	address := &url.URL{Scheme: "nats", Host: "10.0.0.1:6222", User: url.UserPassword(user, secret)}
	for _, log := range []func(string, ...any){l.Noticef, l.Warnf, l.Errorf, l.Fatalf, l.Debugf, l.Tracef} {
		log("route to %s: %s is wrong: %v", address, secret, errors.New(secret))
	}
	if strings.Contains(out.String(), "word") || strings.Count(out.String(), "***") != 18 {
		t.Errorf("the log has the secret:\n%s", out.String())
	}
	if err := <-l.fatal; strings.Contains(err.Error(), "word") || !strings.Contains(err.Error(), "10.0.0.1:6222") {
		t.Errorf("the error has the secret, or not the address: %v", err)
	}
}

// An outage of an hour gives one line a minute and cause. Attempts, ports and names of streams make no new cause, another server does.
func TestLinesOfALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := newLogger(slog.New(slog.NewTextHandler(&out, nil)), "s3cret", []string{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222"})
		for i := range 3600 {
			for _, peer := range []string{"10.0.0.2:6222", "10.0.0.3:6222"} {
				l.Errorf("Error trying to connect to route (attempt %v): %v", i, fmt.Errorf("read tcp 10.0.0.1:%d->%s: refused", 30_000+i, peer))
			}
			l.Errorf(fmt.Sprintf("127.0.0.1:%d - rid:%d - %%s", 30_000+i, i)+" closed", "Route")
			l.Errorf(fmt.Sprintf("127.0.0.1:%d - rid:%d - Error flushing: %%v", 30_000+i, i), errors.New("broken pipe"))
			l.Warnf("%s - %s%s", fmt.Sprintf("127.0.0.1:%d - rid:%d", 30_000+i, i), "Slow", "")
			l.Warnf(fmt.Sprintf("Filestore [stream%c] loadBlock error: %%v", 'a'+i%26), errors.New("x"))
			time.Sleep(time.Second)
		}
		for part, want := range map[string]int{
			"->10.0.0.2": 60, "->10.0.0.3": 60, "closed": 60, "Slow": 60, "loadBlock": 60, "flushing": 60, "repeated=59": 6 * 59, "level=ERROR": 60,
		} {
			if got := strings.Count(out.String(), part); got != want {
				t.Errorf("an hour has %d lines with %q, want %d", got, part, want)
			}
		}
	})
}

// The logger forgets the causes of a quiet minute, so that a server with ever new words needs no more memory.
func TestCausesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogger(slog.New(slog.DiscardHandler), "s3cret", nil)
		for i := range 10 * mostCauses {
			l.Warnf(strings.Repeat("x", i+1))
			time.Sleep(sayAgain / 100)
		}
		if n := len(l.said); n > mostCauses {
			t.Errorf("the logger knows %d causes, want at most %d", n, mostCauses)
		}
	})
}
