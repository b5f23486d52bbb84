package natsserver

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

// A server's messages may contain the addresses of others, with the secret as it stands in an address.
func TestSecretIsNotLogged(t *testing.T) {
	const secret = "p@ss/word %41"
	var out strings.Builder
	l := newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), secret)
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
