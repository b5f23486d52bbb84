package stream

import (
	"net/url"
	"strconv"
	"strings"
)

const ingestPrefix = "/stream/"

// endpoint is the address of a source as a request names it. All parts are unescaped and not empty, none of them has
// been checked.
type endpoint struct {
	project, source, secret string
}

// parseEndpoint splits an escaped URL path of the form /stream/{projectId}/{sourceId}/{secret}. It reports false for
// every other path, also for one with an empty part, a trailing slash or a broken escape. A slash inside a part must be
// escaped.
func parseEndpoint(path string) (endpoint, bool) {
	rest, ok := strings.CutPrefix(path, ingestPrefix)
	if !ok {
		return endpoint{}, false
	}
	project, rest, _ := strings.Cut(rest, "/")
	source, secret, _ := strings.Cut(rest, "/")
	if strings.Contains(secret, "/") {
		return endpoint{}, false
	}
	e := endpoint{project: project, source: source, secret: secret}
	for _, part := range []*string{&e.project, &e.source, &e.secret} {
		s, err := url.PathUnescape(*part)
		if err != nil || s == "" {
			return endpoint{}, false
		}
		*part = s
	}
	return e, true
}

// projectID reads a project id: a positive decimal number, without sign or leading zero.
func projectID(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	return n, true
}
