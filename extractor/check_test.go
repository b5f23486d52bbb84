package extractor_test

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// checkError wants an error that contains a text, or none when that is empty.
func checkError(t testing.TB, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want %q", err, want)
	}
}

func checkLog(t testing.TB, log, want string) {
	t.Helper()
	if !strings.Contains(log, want) {
		t.Errorf("the log has no %q:\n%s", want, log)
	}
}

// link returns a link value, the path, and the checksum of a serialised object.
func link(path, serialized string) string {
	sum := md5.Sum([]byte(serialized))
	return path + "_" + hex.EncodeToString(sum[:])
}

func newDebugLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func escapeQuery(s string) string { return url.QueryEscape(s) }

func base64Text(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func md5Text(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

func sha1Text(s string) string {
	sum := sha1.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// newRoutedAPI responds by the URI of a request, followed by a space and the body if it has one. It keeps both as the request.
func newRoutedAPI(t testing.TB, answers ...map[string]string) *api {
	a := &api{}
	a.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked := strings.TrimRight(r.RequestURI+" "+string(body), " ")
		a.mu.Lock()
		a.requests = append(a.requests, r.Method+" "+asked)
		a.mu.Unlock()
		for _, set := range answers {
			if answer, ok := set[asked]; ok {
				writeAnswer(w, answer)
				return
			}
		}
		http.Error(w, "no answer for "+asked, http.StatusNotFound)
	}))
	t.Cleanup(a.server.Close)
	return a
}

// emitLines makes the JSON of every record in one buffer.
func emitLines(line *[]byte) func(context.Context, *extractor.Page) error {
	return func(_ context.Context, p *extractor.Page) error {
		for rec := range p.Records() {
			*line = rec.AppendJSON((*line)[:0])
		}
		return nil
	}
}
