package extractor_test

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/extractor"
)

func TestRedirects(t *testing.T) {
	t.Parallel()
	const auth = `"authentication": {"type": "login", "loginRequest": {"endpoint": "l"}, "apiRequest": {"headers": {"T": {"response": "t"}}, "query": {"k": {"response": "t"}}}}`
	hops := func(n int, end string) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("302 Location: /%d\n", i))
		}
		return append(out, end)
	}
	for _, s := range []story{
		{name: "five", config: `"jobs": [{"endpoint": "u"}]`, answers: hops(5, `[]`), requests: []string{"GET /u", "GET /0", "GET /1", "GET /2", "GET /3", "GET /4"}},
		{name: "six", config: `"jobs": [{"endpoint": "u"}]`, answers: hops(6, `[]`), requests: []string{"GET /u", "GET /0", "GET /1", "GET /2", "GET /3", "GET /4"}, err: "network failure 47: more than 5 redirects"},
		{name: "each is signed", api: auth + `, "http": {"trustedOrigins": ["http://o"]}`, headers: []string{"T"}, config: `"jobs": [{"endpoint": "u"}]`, answers: []string{`{"t": "x"}`, "301 Location: http://o/p?a=1\n", `[]`}, requests: []string{"GET /l", "GET /u?k=x T=x", "GET http://o/p?a=1&k=x T=x"}},
		{
			name: "own credentials stay with their host", headers: []string{"Authorization", "Cookie", "A"}, config: `"http": {"headers": {"Authorization": "x", "cookie": "y", "A": "z"}}, "jobs": [{"endpoint": "u"}]`,
			answers: []string{"302 Location: b\n", "302 Location: //o/p\n", `[]`}, requests: []string{"GET /u Authorization=x Cookie=y A=z", "GET /b Authorization=x Cookie=y A=z", "GET http://o/p"},
		},
		{name: "POST becomes GET", config: `"jobs": [{"endpoint": "u", "method": "POST", "params": {"a": 1}}]`, headers: []string{"Content-Type"}, answers: []string{"303 Location: p?x\n", `[]`}, requests: []string{`POST /u Content-Type=application/json application/json {"a":1}`, "GET /p?x"}},
		{name: "POST stays POST", config: `"jobs": [{"endpoint": "u", "method": "POST", "params": {"a": 1}}]`, answers: []string{"307 Location: p\n", "308 Location: q\n", `[]`}, requests: []string{`POST /u application/json {"a":1}`, `POST /p application/json {"a":1}`, `POST /q application/json {"a":1}`}},
		{name: "to another scheme", config: `"jobs": [{"endpoint": "u"}]`, answers: []string{"302 Location: file:///etc/hosts\n"}, requests: []string{"GET /u"}, err: "redirect: the URL must begin with http or https"},
		{name: "without location", config: `"jobs": [{"endpoint": "u", "dataField": "d"}]`, answers: []string{`302 {"d": [1]}`}, requests: []string{"GET /u"}, records: []string{`u: {"data":1}`}},
	} {
		s.run(t)
	}
}

func TestResponseLimit(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := io.Writer(w)
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		}
		_, _ = io.WriteString(out, `["`+strings.Repeat("x", 2_000_000)+`"]`)
	}))
	defer s.Close()
	cfg, err := extractor.ParseAt([]byte(config("", `"jobs": [{"endpoint": "u"}]`)), s.URL)
	checkError(t, err, "")
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{MaxResponseBytes: 1_999_999})
	checkError(t, err, "the response is larger than allowed (1999999 bytes)")
	var bytes int64
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{MaxResponseBytes: 2_000_004, Progress: func(p extractor.Progress) { bytes = p.Bytes }})
	checkError(t, err, "")
	if bytes != 2_000_004 {
		t.Errorf("progress tells %d bytes", bytes)
	}
}

// TestCompression asks for compression by a header of the configuration, which the transport then leaves to us.
func TestCompression(t *testing.T) {
	t.Parallel()
	for encoding, compress := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"none":    nil,
		"empty":   nil,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != encoding {
				t.Errorf("Accept-Encoding %q, want %q", got, encoding)
			}
			switch {
			case compress != nil:
				w.Header().Set("Content-Encoding", encoding)
				z := compress(w)
				_, _ = io.WriteString(z, `[{"a": 1}]`)
				_ = z.Close()
			case encoding == "empty":
				w.Header().Set("Content-Encoding", "gzip")
			default:
				_, _ = io.WriteString(w, `[{"a": 1}]`)
			}
		}))
		cfg, err := extractor.ParseAt([]byte(config(`"http": {"headers": {"accept-encoding": "`+encoding+`"}}`, `"jobs": [{"endpoint": "u"}]`)), s.URL)
		checkError(t, err, "")
		var records int
		_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Emit: func(_ context.Context, p *extractor.Page) error {
			records += p.Len()
			return nil
		}})
		s.Close()
		if encoding == "empty" {
			if err != nil || records != 0 {
				t.Errorf("without a body: %d records, error %v, want an empty page", records, err)
			}
		} else if err != nil || records != 1 {
			t.Errorf("%s: got %d records, error %v, want 1, no error", encoding, records, err)
		}
	}
}

func TestNetworkFailures(t *testing.T) {
	t.Parallel()
	hijack := func(write string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, write)
				_ = conn.Close()
			}
		}))
	}
	empty, cut, plain := hijack(""), hijack("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[1"), hijack("nonsense")
	closed := hijack("")
	closed.Close()
	for _, s := range []*httptest.Server{empty, cut, plain} {
		defer s.Close()
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for _, test := range []struct {
		name, url, want string
		transport       http.RoundTripper
	}{
		{"empty reply", empty.URL, "network failure 52: EOF", nil},
		{"cut off", cut.URL, "network failure 56: unexpected EOF", nil},
		{"refused", closed.URL, "network failure 7: dial", nil},
		{"no TLS", strings.Replace(plain.URL, "http", "https", 1), "network failure 35: tls:", nil},
		{"unknown certificate", secure.URL, "network failure 60: tls: failed to verify certificate", &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}},
		{"unknown host", "http://h", "network failure 6:", &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}}
		}}},
		{"anything else", "http://h", "network failure 1: broken", &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("broken")
		}}},
	} {
		cfg, err := extractor.ParseAt([]byte(config(`"retryConfig": {"maxRetries": 0}`, `"jobs": [{"endpoint": "u"}]`)), test.url)
		checkError(t, err, "")
		_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{Transport: test.transport})
		checkError(t, err, test.want)
		if extractor.ExitStatus(err) != 1 {
			t.Errorf("%s: exit status %d, want 1", test.name, extractor.ExitStatus(err))
		}
	}
}

func TestPublicOnly(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer s.Close()
	for _, url := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/", "http://[::ffff:10.0.0.1]/"} {
		cfg, err := extractor.ParseAt([]byte(config("", `"jobs": [{"endpoint": "u"}]`)), url)
		checkError(t, err, "")
		_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{PublicOnly: true})
		checkError(t, err, "is not public, and connections to private addresses are not allowed")
	}
	if asked.Load() {
		t.Error("a private address was asked")
	}
	err := extractor.Options{PublicOnly: true, Transport: http.DefaultTransport, MaxResponseBytes: -1, MaxRetryDelay: -1}.Validate()
	checkError(t, err, "PublicOnly needs the default Transport\nMaxResponseBytes is negative\nMaxRetryDelay is negative")
}

// TestSecrets lets an API repeat everything it is sent, in responses, errors, links and headers, and looks for the secrets
// in all that a user sees.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{`p4ss/w+rd "x" é`, `tok=a&b%2F~[]`, `<\u0041>`, "abc", "日本語のパスワード"} {
		quoted, _ := json.Marshal(secret)
		cfg := config(`
			"http": {"headers": {"X-Key": {"function": "base64_encode", "args": [{"attr": "#secret"}]}}},
			"retryConfig": {"maxRetries": 1, "http": {"retryHeader": "Wait"}},
			"pagination": {"method": "response.url"},
			"authentication": {"type": "login", "loginRequest": {"endpoint": "login", "params": {"s": {"attr": "#secret"}}},
				"apiRequest": {"headers": {"T": {"function": "sha1", "args": [{"function": "concat", "args": [{"response": "token"}, {"attr": "#secret"}]}]}}, "query": {"token": {"response": "token"}}}}`,
			`"#secret": `+string(quoted)+`, "nested": {"#also": "n3sted"}, "jobs": [{"endpoint": "u/{x}?s=1", "params": {"a": {"attr": "#secret"}, "b": {"attr": "nested.#also"}, "c": {"function": "md5", "args": [{"attr": "#secret"}]}}}]`)
		for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, echo string){
			"error of the API": func(w http.ResponseWriter, _ *http.Request, echo string) {
				w.WriteHeader(400)
				_, _ = io.WriteString(w, echo)
			},
			"error as JSON": func(w http.ResponseWriter, r *http.Request, _ string) {
				w.Header().Set("Wait", "0.001")
				w.WriteHeader(500)
				_ = json.NewEncoder(w).Encode(map[string]any{"query": r.URL.Query(), "uri": r.RequestURI, "key": r.Header})
			},
			"link": func(w http.ResponseWriter, r *http.Request, _ string) {
				if r.URL.Query().Get("n") != "" {
					w.WriteHeader(404)
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"d": []int{1}, "next_page": "/v?n=1&" + r.URL.RawQuery})
			},
			"several lists": func(w http.ResponseWriter, r *http.Request, _ string) {
				_ = json.NewEncoder(w).Encode(map[string]any{r.URL.Query().Get("a"): []int{1}, r.URL.Query().Get("token"): []int{}})
			},
		} {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/login" {
					_, _ = io.WriteString(w, `{"token": "l0gin-t0ken"}`)
					return
				}
				query := r.URL.Query()
				echo := strings.Join([]string{r.RequestURI, query.Get("a"), query.Get("b"), query.Get("token"), query.Get("token[0]"), r.Header.Get("T"), r.Header.Get("X-Key")}, " | ")
				answer(w, r, echo)
			}))
			parsed, err := extractor.ParseAt([]byte(cfg), s.URL)
			if err != nil {
				t.Fatal(err)
			}
			var logged strings.Builder
			logger := newDebugLogger(&logged)
			_, err = extractor.Run(t.Context(), parsed, extractor.State{}, extractor.Options{Logger: logger})
			s.Close()
			if err == nil {
				t.Errorf("%s: got no error, want one", name)
			}
			shown := logged.String() + fmt.Sprintf("%v %+v %#v", err, err, err)
			for _, hidden := range []string{secret, "n3sted", "l0gin-t0ken", escapeQuery(secret), base64Text(secret), md5Text(secret), sha1Text("l0gin-t0ken" + secret)} {
				if strings.Contains(shown, hidden) {
					t.Errorf("%s: %q is shown:\n%s", name, hidden, shown)
				}
			}
			if !strings.Contains(shown, "***") {
				t.Errorf("%s: nothing was hidden:\n%s", name, shown)
			}
		}
	}
}
