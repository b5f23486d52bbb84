package extractor_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/driverkit/buildversion"
	"github.com/forebay/forebay/extractor"
)

// A wireAPI notes requests with every header, and responds in order.
type wireAPI struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newWireAPI(t *testing.T, answers ...string) *wireAPI {
	w := new(wireAPI)
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		line := r.Method + " " + r.RequestURI + " " + r.Proto
		r.Header.Set("Host", strings.Replace(r.Host, w.Listener.Addr().String(), "api", 1))
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			line += "|" + name + ": " + strings.Join(r.Header[name], ", ")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked = append(w.asked, line+"|"+string(body))
		answer := "404 nothing left"
		if len(w.asked) <= len(answers) {
			answer = answers[len(w.asked)-1]
		}
		writeAnswer(out, answer)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *wireAPI) run(t *testing.T, api, jobs string) error {
	t.Helper()
	cfg, err := extractor.ParseAt([]byte(config(api, jobs)), w.URL+"/")
	checkError(t, err, "")
	_, err = extractor.Run(t.Context(), cfg, extractor.State{}, extractor.Options{})
	return err
}

// TestWholeRequests asserts every line, header and body of the requests that methods and ways to authenticate send, in order. There is nothing
// except the parts that the configuration and HTTP require.
func TestWholeRequests(t *testing.T) {
	t.Parallel()
	agent := "forebay-extractor/" + buildversion.String()
	plain := "|Accept-Encoding: gzip|Host: api|User-Agent: " + agent + "|"
	// with returns the headers of a request with a body, and others that sort before Content-Length or after Accept-Encoding.
	with := func(auth, kind, body string) string {
		return fmt.Sprintf("|Accept-Encoding: gzip%s|Content-Length: %d|Content-Type: application/%s|Host: api|User-Agent: %s|%s", auth, len(body), kind, agent, body)
	}
	const x, form = `{"x":"\u00fc","p":{"n":1}}`, "x-www-form-urlencoded"
	const x2 = `{"x":"\u00fc","p":{"n":2}}`
	const retries = `"retryConfig": {"http": {"retryHeader": "Wait"}}, `
	const pages = retries + `"pagination": {"method": "pagenum", "pageParam": "p.n", "paramDelimiter": "."}, `
	auth := func(s string) string { return `"authentication": {` + s + `}` }
	const oauth = `"type": "oauth2", "tokenUrl": "token", "clientId": "me", "clientSecret": "s3"`
	const tokenForm = "grant_type=client_credentials"
	tokenRequest := "POST /token HTTP/1.1" + strings.Replace(with("|Authorization: Basic bWU6czM=", form, tokenForm), "|Accept-Encoding", "|Accept: application/json|Accept-Encoding", 1)
	job := func(method string) string {
		return `"jobs": [{"endpoint": "u?q=1", "method": "` + method + `", "params": {"x": "ü"}}]`
	}
	for _, test := range []struct {
		name, api, jobs string
		answers, want   []string
		err             string
	}{
		{"GET", "", job("GET"), []string{`[]`}, []string{"GET /u?q=1&x=%C3%BC HTTP/1.1" + plain}, ""},
		{"FORM", "", job("FORM"), []string{`[]`}, []string{"POST /u?q=1 HTTP/1.1" + with("", form, "x=%C3%BC")}, ""},
		{
			"POST, tried again, pages", pages, job("POST"),
			[]string{"503 Wait: 0.001\n", `[1]`, `[]`},
			[]string{"POST /u?q=1 HTTP/1.1" + with("", "json", x), "POST /u?q=1 HTTP/1.1" + with("", "json", x), "POST /u?q=1 HTTP/1.1" + with("", "json", x2)},
			"",
		},
		{
			"PUT, tried again, pages", pages, job("PUT"),
			[]string{"503 Wait: 0.001\n", `[1]`, `[]`},
			[]string{"PUT /u?q=1 HTTP/1.1" + with("", "json", x), "PUT /u?q=1 HTTP/1.1" + with("", "json", x), "PUT /u?q=1 HTTP/1.1" + with("", "json", x2)},
			"",
		},
		{
			"PATCH, redirected with its body, and without", pages, job("PATCH"),
			[]string{"308 Location: /v\n", `[1]`, "303 Location: /w\n", `[]`},
			[]string{"PATCH /u?q=1 HTTP/1.1" + with("", "json", x), "PATCH /v HTTP/1.1" + with("", "json", x), "PATCH /u?q=1 HTTP/1.1" + with("", "json", x2), "GET /w HTTP/1.1" + plain},
			"",
		},
		{
			"PUT after a rule and a new login", pages + `"http": {"answerRules": [{"path": "busy", "action": "retry"}]}, ` + auth(oauth), job("PUT"),
			[]string{`{"access_token": "a1"}`, "Wait: 0.001\n" + `{"busy": 1}`, "401 old", `{"access_token": "a2"}`, `[]`},
			[]string{
				tokenRequest, "PUT /u?q=1 HTTP/1.1" + with("|Authorization: Bearer a1", "json", x), "PUT /u?q=1 HTTP/1.1" + with("|Authorization: Bearer a1", "json", x),
				tokenRequest, "PUT /u?q=1 HTTP/1.1" + with("|Authorization: Bearer a2", "json", x),
			},
			"",
		},
		{
			"one new login for each request", auth(oauth), `"jobs": [{"endpoint": "u"}, {"endpoint": "v"}]`,
			[]string{`{"access_token": "a1"}`, "401 old", `{"access_token": "a2"}`, `[]`, "401 old", `{"access_token": "a3"}`, "401 old"},
			[]string{
				tokenRequest, "GET /u HTTP/1.1" + strings.Replace(plain, "|Host", "|Authorization: Bearer a1|Host", 1), tokenRequest, "GET /u HTTP/1.1" + strings.Replace(plain, "|Host", "|Authorization: Bearer a2|Host", 1),
				"GET /v HTTP/1.1" + strings.Replace(plain, "|Host", "|Authorization: Bearer a2|Host", 1), tokenRequest, "GET /v HTTP/1.1" + strings.Replace(plain, "|Host", "|Authorization: Bearer a3|Host", 1),
			},
			"returned 401 (attempt 2)",
		},
		{"basic", auth(`"type": "basic", "username": "me", "password": "s3"`), job("POST"), []string{`[]`}, []string{"POST /u?q=1 HTTP/1.1" + with("|Authorization: Basic bWU6czM=", "json", `{"x":"\u00fc"}`)}, ""},
		{"key in the query of a PUT", auth(`"type": "apiKey", "in": "query", "name": "k", "value": "s 3"`), job("PUT"), []string{`[]`}, []string{"PUT /u?q=1&k=s%203 HTTP/1.1" + with("", "json", `{"x":"\u00fc"}`)}, ""},
		{"key in a header", auth(`"type": "apiKey", "name": "A-Key", "value": "s3"`), job("GET"), []string{`[]`}, []string{"GET /u?q=1&x=%C3%BC HTTP/1.1|A-Key: s3" + plain}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWireAPI(t, test.answers...)
			checkError(t, w.run(t, strings.TrimSuffix(test.api, ", "), test.jobs), test.err)
			same(t, "requests", w.asked, test.want)
		})
	}
}

// TestSignedParts has each algorithm, encoding and part of a request that a signature can have, and recomputes it from the server's request.
func TestSignedParts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings string
		hash     func() hash.Hash
		encode   func([]byte) string
		key      string
	}{
		{`"key": "s3cret"`, sha256.New, hex.EncodeToString, "s3cret"},
		{`"algorithm": "sha1", "keyEncoding": "hex", "key": "00ff", "encoding": "base64"`, sha1.New, base64.StdEncoding.EncodeToString, "\x00\xff"},
		{`"algorithm": "sha512", "keyEncoding": "base64", "key": "AP8=", "encoding": "hex"`, sha512.New, hex.EncodeToString, "\x00\xff"},
	} {
		w := newWireAPI(t, `[]`, `[]`)
		began := time.Now().Truncate(time.Second)
		checkError(t, w.run(t, `"authentication": {"type": "hmac", `+test.settings+`,
			"message": {"function": "implode", "args": ["|", [{"request": "url"}, {"request": "host"}, {"request": "timestampMs"}, {"request": "date"}, {"request": "body"}]]},
			"headers": {"Date": {"request": "date"}, "X-Ms": {"request": "timestampMs"}}, "query": {"v": 2, "sig": {"request": "signature"}}}`,
			`"jobs": [{"endpoint": "a%20b", "params": {"x": "/"}}, {"endpoint": "c", "method": "PATCH", "params": {"x": 1}}]`), "")
		if len(w.asked) != 2 {
			t.Fatalf("requests %s", w.asked)
		}
		for i, line := range w.asked {
			head, rest, _ := strings.Cut(line, "|")
			headers := make(map[string]string)
			parts := strings.Split(rest, "|")
			for _, h := range parts[:len(parts)-1] {
				name, value, _ := strings.Cut(h, ": ")
				headers[name] = value
			}
			date, err := http.ParseTime(headers["Date"])
			checkError(t, err, "")
			if date.Before(began) || !strings.HasPrefix(headers["X-Ms"], fmt.Sprint(date.Unix())) || len(headers["X-Ms"]) != 13 {
				t.Errorf("signed at %s and %s ms, the test began at %s", date, headers["X-Ms"], began)
			}
			target := []string{"/a%20b?x=%2F", "/c"}[i]
			mac := hmac.New(test.hash, []byte(test.key))
			host := strings.TrimPrefix(w.URL, "http://")
			fmt.Fprintf(mac, "%s%s|%s|%s|%s|%s", w.URL, target, host, headers["X-Ms"], headers["Date"], parts[len(parts)-1])
			signed := map[bool]string{true: target + "&", false: target + "?"}[strings.Contains(target, "?")] + "v=2&sig=" + escapeQuery(test.encode(mac.Sum(nil)))
			if want := []string{"GET ", "PATCH "}[i] + signed + " HTTP/1.1"; head != want {
				t.Errorf("%s: request %s, want %s", test.settings, head, want)
			}
		}
	}
}
