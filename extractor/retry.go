package extractor

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/forebay/forebay/extractor/internal/datetext"
)

// retryConfig says which failures are tried again, and how often.
type retryConfig struct {
	max     int
	header  string
	codes   []int
	network []int
	// jitter is the part of a pause that is left to chance, 0 for none.
	jitter float64
}

// Codes of network failures, as configurations name them.
const (
	codeUnknownHost   = 6
	codeConnect       = 7
	codeTimeout       = 28
	codeTLS           = 35
	codeTooManyHops   = 47
	codeEmptyReply    = 52
	codeReceive       = 56
	codeCertificate   = 60
	codeOtherFailures = 1
)

func parseRetry(api *section) retryConfig {
	rc := retryConfig{
		max: 10, header: "Retry-After",
		codes:   []int{500, 502, 503, 504, 408, 420, 429},
		network: []int{codeTimeout, codeUnknownHost, codeConnect, codeTLS, codeEmptyReply, codeReceive},
	}
	s := api.section("retryConfig")
	if s == nil {
		return rc
	}
	rc.max = int(min(s.natural("maxRetries", int64(rc.max)), 1000))
	rc.header = s.text("headerName", rc.header)
	rc.codes = s.integers("httpCodes", rc.codes)
	rc.network = s.integers("curlCodes", rc.network)
	if h := s.section("http"); h != nil {
		rc.header = h.text("retryHeader", rc.header)
		rc.codes = h.integers("codes", rc.codes)
		h.done()
	}
	if c := s.section("curl"); c != nil {
		rc.network = c.integers("codes", rc.network)
		c.done()
	}
	if n, ok := s.get("jitter"); ok {
		f, isNumber := n.Number()
		if rc.jitter = f.Real(); !isNumber || rc.jitter < 0 || rc.jitter > 1 {
			s.wrong("jitter", "must be a number from 0 to 1")
			rc.jitter = 0
		}
	}
	s.done()
	return rc
}

// delay returns the time before a retry, the server's delay plus a random part of it, else ours, which is 1, 2, 4
// and so on seconds by the number of the retry, with its jitter. Configurations rely on these delays, so there is no jitter by default.
// asked is the server's delay, 0 when it asks for none.
func (rc retryConfig) delay(ours time.Duration, h http.Header, now time.Time) (delay, asked time.Duration) {
	asked, ok := rc.asked(h, now)
	if !ok {
		return ours, 0
	}
	return asked + time.Duration(rc.jitter*rand.Float64()*float64(asked)), asked
}

// asked returns the pause that the server asks for.
func (rc retryConfig) asked(h http.Header, now time.Time) (pause time.Duration, ok bool) {
	return pauseIn(h.Get(rc.header), now)
}

// pauseIn reads a pause in a header: seconds, a timestamp, a duration such as 90s or "2 minutes", or a date and time.
func pauseIn(value string, now time.Time) (pause time.Duration, ok bool) {
	value = strings.TrimSpace(value)
	if f, err := strconv.ParseFloat(value, 64); err == nil {
		wait := f
		if f >= float64(now.Add(-24*time.Hour).Unix()) { // a time, not a number of seconds
			wait = f - float64(now.UnixNano())/1e9
		}
		return time.Duration(min(max(wait, 0), aeon) * float64(time.Second)), f > 0 && !math.IsInf(f, 0)
	}
	if d, err := time.ParseDuration(value); err == nil {
		return max(d, 0), d > 0
	}
	at, err := http.ParseTime(value)
	if err != nil {
		if at, ok = datetext.Parse(value, now.Add(time.Second-1).Truncate(time.Second)); !ok || value == "" {
			return 0, false
		}
	}
	return max(at.Sub(now), 0), true
}

// limited reports whether a response with status 403 is a rate limit, and no refusal, which is when the server asks for a pause, or nothing remains.
func (c *client) limited(resp *response) bool {
	if resp == nil || resp.status != http.StatusForbidden {
		return false
	}
	_, asked := c.plan.retry.asked(resp.header, time.Now())
	return asked || c.pace.exhausted(resp.header)
}

// again reports whether a failure is tried again, where status is 0 when there was no response. The failure of a login, which
// has had its own attempts and wraps their error, is not.
func (rc retryConfig) again(status int, err error) bool {
	if err != nil {
		network, ok := err.(*networkError)
		return ok && slices.Contains(rc.network, network.code)
	}
	return slices.Contains(rc.codes, status)
}

// A networkError is a failure of the connection, with the code under which configurations know it.
type networkError struct {
	code int
	err  error
}

func (e *networkError) Error() string {
	return "network failure " + strconv.Itoa(e.code) + ": " + e.err.Error()
}
func (e *networkError) Unwrap() error { return e.err }

// networkFailure classifies an error of a transport.
func networkFailure(err error) *networkError {
	e := &networkError{codeOtherFailures, err}
	var (
		dns    *net.DNSError
		op     *net.OpError
		record tls.RecordHeaderError
		alert  tls.AlertError
		cert   *tls.CertificateVerificationError
		netErr net.Error
	)
	switch {
	case errors.As(err, &cert):
		e.code = codeCertificate
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		e.code = codeTimeout
	case errors.As(err, &dns):
		e.code = codeUnknownHost
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, syscall.ECONNREFUSED):
		e.code = codeConnect
	case errors.As(err, &record), errors.As(err, &alert):
		e.code = codeTLS
	case errors.Is(err, io.EOF):
		e.code = codeEmptyReply
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op), errors.Is(err, syscall.ECONNRESET):
		e.code = codeReceive
	}
	return e
}
