package stream

import (
	"net/url"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

func TestParseEvent(t *testing.T) {
	tests := []struct {
		path string
		want endpoint
		ok   bool
	}{
		{"/stream/1/web/s3cret", endpoint{project: "1", source: "web", secret: "s3cret"}, true},
		{"/stream/x/web/s3cret", endpoint{project: "x", source: "web", secret: "s3cret"}, true},
		{"/stream/1/web/a%2Fb", endpoint{project: "1", source: "web", secret: "a/b"}, true},
		{"/stream/1/web/a%20b%C3%BC", endpoint{project: "1", source: "web", secret: "a bü"}, true},
		{"/stream/1/web/s3cret/", endpoint{}, false},
		{"/stream/1/web/s3cret/more", endpoint{}, false},
		{"/stream/1/web/", endpoint{}, false},
		{"/stream/1/web", endpoint{}, false},
		{"/stream/1//s3cret", endpoint{}, false},
		{"/stream//web/s3cret", endpoint{}, false},
		{"/stream///", endpoint{}, false},
		{"/stream/1/web/%zz", endpoint{}, false},
		{"/stream", endpoint{}, false},
		{"/streams/1/web/s3cret", endpoint{}, false},
		{"stream/1/web/s3cret", endpoint{}, false},
		{"//stream/1/web/s3cret", endpoint{}, false},
		{"/STREAM/1/web/s3cret", endpoint{}, false},
		{"", endpoint{}, false},
		{"*", endpoint{}, false},
	}
	for _, tt := range tests {
		got, ok := parseEvent(tt.path)
		if ok && (!strings.HasPrefix(tt.path, got.shown) || strings.Count(got.shown, "/") != 4 || !strings.HasSuffix(got.shown, "/")) {
			t.Errorf("parseEvent(%q) shows %q", tt.path, got.shown)
		}
		got.shown = ""
		if got != tt.want || ok != tt.ok {
			t.Errorf("parseEvent(%q) = %+v, %v, want %+v, %v", tt.path, got, ok, tt.want, tt.ok)
		}
	}
}

// FuzzParseEvent checks that a parsed path has three parts without a way to smuggle a fourth, and that the address
// of every source is found again.
func FuzzParseEvent(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add("1", "web", "s3cret")
	f.Add("", "%2F", "a/b")
	f.Add("1", "..", "?#")
	f.Add("1/web/s3cret", "\x00", "ü")
	f.Fuzz(func(t *testing.T, project, source, secret string) {
		want := endpoint{project: project, source: source, secret: secret}
		path := eventPrefix + url.PathEscape(project) + "/" + url.PathEscape(source) + "/" + url.PathEscape(secret)
		got, ok := parseEvent(path)
		if ok && got.shown != path[:strings.LastIndexByte(path, '/')+1] {
			t.Errorf("parseEvent(%q) shows %q", path, got.shown)
		}
		got.shown = ""
		if complete := project != "" && source != "" && secret != ""; ok != complete || ok && got != want {
			t.Errorf("parseEvent(%q) = %+v, %v, want %+v, %v", path, got, ok, want, complete)
		}
		raw := eventPrefix + project + "/" + source + "/" + secret
		if _, ok := parseEvent(raw); ok && strings.Count(raw, "/") != 4 {
			t.Errorf("parseEvent(%q) is taken although it does not have three parts", raw)
		}
	})
}

// What is shown of the path of telemetry lacks the secret and nothing else.
func TestShownPathOfTelemetry(t *testing.T) {
	for path, want := range map[string]string{
		"/otlp/1/web/s3cret/v1/logs":    "/otlp/1/web//v1/logs",
		"/otlp/1/web/s3cret":            "/otlp/1/web/",
		"/otlp/1/web/a%2Fb%20/v1/logs/": "/otlp/1/web//v1/logs/",
		"/otlp/1/w%65b/v1/v1/logs":      "/otlp/1/w%65b//v1/logs",
		"/otlp/1/web/v1/traces":         "/otlp/1/web/v1/traces",
		"/otlp/1/web":                   "/otlp/1/web",
		"/v1/logs":                      "/v1/logs",
	} {
		if got, ok := parseTelemetry(path); !ok || got.shown != want {
			t.Errorf("parseTelemetry(%q) shows %q, %v, want %q", path, got.shown, ok, want)
		}
	}
}

func TestProjectID(t *testing.T) {
	for s, want := range map[string]int{"1": 1, "42": 42} {
		if got, ok := projectID(s); got != want || !ok {
			t.Errorf("projectID(%q) = %d, %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", "1.0", "1e3", "x", "1 ", "99999999999999999999"} {
		if got, ok := projectID(s); ok {
			t.Errorf("projectID(%q) = %d, want a refusal", s, got)
		}
	}
}
