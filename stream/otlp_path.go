package stream

import (
	"net/url"
	"strings"

	"github.com/forebay/forebay"
)

const otlpPrefix = "/otlp/"

// otlpEndpoint is the address of an OTLP source as a request names it. The parts are unescaped, and none of them has been
// checked.
type otlpEndpoint struct {
	project, source string
	// secret is empty when it is not in the path, signal when the path does not tell it.
	secret string
	signal forebay.Signal
	// plain tells that the path has nothing but the signal: the bearer token alone tells the source.
	plain bool
}

// isTelemetry reports whether a path is for the endpoints of OTLP.
func isTelemetry(path string) bool {
	return strings.HasPrefix(path, otlpPrefix) || isPlain(path)
}

// isPlain reports whether a path is one that exporters append to an endpoint without a path.
func isPlain(path string) bool {
	signal, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/v1/")
	return ok && otlpSignals[signal] != "" || isProfiles(path)
}

// isProfiles reports whether a path ends with that of the signal that is not taken.
func isProfiles(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return strings.HasSuffix(path, "/v1development/profiles") || strings.HasSuffix(path, "/v1/profiles")
}

var otlpSignals = map[string]forebay.Signal{
	"logs": forebay.SignalLogs, "metrics": forebay.SignalMetrics, "traces": forebay.SignalTraces,
}

// parseOTLPEndpoint splits an escaped URL path of the form /otlp/{projectId}/{sourceId}[/{secret}][/v1/{signal}][/], or
// /v1/{signal}[/].
// Exporters append the signal to a general endpoint and use the endpoint of one signal as it is, so both must work.
func parseOTLPEndpoint(path string) (otlpEndpoint, bool) {
	if isPlain(path) {
		return otlpEndpoint{signal: otlpSignals[strings.TrimSuffix(path[len("/v1/"):], "/")], plain: true}, true
	}
	rest, ok := strings.CutPrefix(path, otlpPrefix)
	if !ok {
		return otlpEndpoint{}, false
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	var e otlpEndpoint
	if n := len(parts); n >= 4 && parts[n-2] == "v1" {
		if e.signal = otlpSignals[parts[n-1]]; e.signal == "" {
			return otlpEndpoint{}, false
		}
		parts = parts[:n-2]
	}
	targets := []*string{&e.project, &e.source, &e.secret}
	if len(parts) < 2 || len(parts) > len(targets) {
		return otlpEndpoint{}, false
	}
	for i, part := range parts {
		s, err := url.PathUnescape(part)
		if err != nil || s == "" {
			return otlpEndpoint{}, false
		}
		*targets[i] = s
	}
	return e, true
}
