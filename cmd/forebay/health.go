package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/server"
)

const healthHelp = `
forebay health asks a server on this machine whether it runs. The exit status is 0 if the server
responds 200, and 1 otherwise. It is the health check of the image.

  forebay health                     asks /health-check at 127.0.0.1:8080
  forebay health -ready              asks /readiness-check: may a balancer send events?
  forebay health -addr :9000         the same at the -addr of the server

The variable FOREBAY_ADDR sets -addr, for this command and for the server.
`

// healthTimeout is how long a server may take to respond. It is below the default time limit of a health check in a container, 30 s.
const healthTimeout = 5 * time.Second

// health asks the address of events, which a balancer asks too.
func (p process) health(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("health", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	addr := flags.String("addr", "127.0.0.1:8080", "the -addr of the server, HOST:PORT; without a host, this machine (e.g. :9000)")
	ready := flags.Bool("ready", false, "ask whether the server accepts events, not only whether it runs")
	if err := flagtext.Parse(flags, args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return p.end("health", err, wrongUsage)
	}
	_, problems := server.Environment(flags, p.environment().Getenv)
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q: flags begin with a dash", flags.Arg(0)))
	}
	if err := server.CheckAddress("addr", *addr); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return p.end("health", err, wrongUsage)
	}
	path := "/health-check"
	if *ready {
		path = "/readiness-check"
	}
	text, err := ask(ctx, "http://"+*addr+path)
	if err != nil {
		return p.end("health", err, failed)
	}
	fmt.Fprintln(p.stdout, text)
	return 0
}

// ask returns the body of a response with status 200. An address without a host, or with 0.0.0.0, is dialed on this machine.
func ask(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Host = "localhost"
	transport := &http.Transport{DisableKeepAlives: true} // without a proxy because the server is on this machine
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if _, reason, ok := driver.DialFailure(err); ok {
			return "", fmt.Errorf("no server responds at %s, %s: start one with forebay serve, or name its address with -addr", url, reason)
		}
		return "", fmt.Errorf("no response from %s: is the server overloaded, or stopping? %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	text := strings.TrimSpace(string(body))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s responds %s: %s", url, resp.Status, text)
	}
	return text, err
}
