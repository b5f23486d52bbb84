package stream

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/forebay/forebay"
)

// endpoint is a source as the path of a request names it. Its parts are unescaped and unchecked.
type endpoint struct {
	// project, source and secret are not empty in the path of an event. In one of telemetry the secret may be a bearer token.
	project, source, secret string
	// shown is the escaped path without the secret.
	shown string
	// telemetry is set for the paths of OTLP.
	telemetry bool
	// signal is empty when the path does not name it.
	signal forebay.Signal
	// bearerOnly says that the path names a signal and nothing else. The bearer token alone identifies the source.
	bearerOnly bool
}

const (
	eventPrefix     = "/stream/"
	telemetryPrefix = "/otlp/"
)

var otlpSignals = map[string]forebay.Signal{
	"logs": forebay.SignalLogs, "metrics": forebay.SignalMetrics, "traces": forebay.SignalTraces,
}

// parseEvent splits an escaped URL path of the form /stream/{projectId}/{sourceId}/{secret}. It reports false for every
// other path, including paths with an empty part, a trailing slash or a broken escape. A slash inside a part must be escaped.
func parseEvent(path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, eventPrefix)
	if !ok {
		return endpoint{}, false
	}
	project, rest, _ := strings.Cut(rest, "/")
	source, secret, _ := strings.Cut(rest, "/")
	if strings.Contains(secret, "/") {
		return endpoint{}, false
	}
	e := endpoint{project: project, source: source, secret: secret, shown: path[:len(path)-len(secret)]}
	if !unescape(&e.project, &e.source, &e.secret) {
		return endpoint{}, false
	}
	return e, true
}

// parseTelemetry splits an escaped URL path of the form /otlp/{projectId}/{sourceId}[/{secret}][/v1/{signal}][/] or
// /v1/{signal}[/]. Exporters append the signal to a general endpoint and use the endpoint of one signal unchanged, so both
// forms must work.
func parseTelemetry(path string) (endpoint, bool) {
	if isBearerOnly(path) {
		return endpoint{telemetry: true, signal: otlpSignals[strings.TrimSuffix(path[len("/v1/"):], "/")], bearerOnly: true, shown: path}, true
	}
	rest, ok := strings.CutPrefix(path, telemetryPrefix)
	if !ok {
		return endpoint{}, false
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	e := endpoint{telemetry: true, shown: path}
	if n := len(parts); n >= 4 && parts[n-2] == "v1" {
		if e.signal = otlpSignals[parts[n-1]]; e.signal == "" {
			return endpoint{}, false
		}
		parts = parts[:n-2]
	}
	targets := []*string{&e.project, &e.source, &e.secret}
	if len(parts) < 2 || len(parts) > len(targets) {
		return endpoint{}, false
	}
	for i, part := range parts {
		*targets[i] = part
	}
	if e.secret != "" {
		before := len(telemetryPrefix) + len(e.project) + 1 + len(e.source) + 1
		e.shown = path[:before] + path[before+len(e.secret):]
	}
	if !unescape(targets[:len(parts)]...) {
		return endpoint{}, false
	}
	return e, true
}

// unescape decodes parts of a path in place. It reports false for an empty part and a broken escape.
func unescape(parts ...*string) bool {
	for _, part := range parts {
		s, err := url.PathUnescape(*part)
		if err != nil || s == "" {
			return false
		}
		*part = s
	}
	return true
}

func isTelemetry(path string) bool {
	return strings.HasPrefix(path, telemetryPrefix) || isBearerOnly(path)
}

// isBearerOnly reports whether exporters append a path to an endpoint that has none.
func isBearerOnly(path string) bool {
	signal, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/v1/")
	return ok && otlpSignals[signal] != "" || isProfiles(path)
}

// isProfiles reports whether a path is for the signal that is not supported.
func isProfiles(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return strings.HasSuffix(path, "/v1development/profiles") || strings.HasSuffix(path, "/v1/profiles")
}

// projectID reads a project id, a positive decimal number, without sign or leading zero.
func projectID(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	return n, true
}
