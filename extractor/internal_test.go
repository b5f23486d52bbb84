package extractor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/extractor/internal/tree"
	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/synctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A handlerTransport responds within the bubble of a test.
type handlerTransport func(w http.ResponseWriter, r *http.Request)

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), r.Context().Err()
}

func loginClient(t *testing.T, expires string, h handlerTransport) *client {
	t.Helper()
	cfg, err := Parse([]byte(`{"api": {"baseUrl": "http://h", "retryConfig": {"maxRetries": 0},
		"authentication": {"type": "login", "loginRequest": {"endpoint": "login"}, "expires": ` + expires + `, "apiRequest": {"headers": {"T": {"response": "t"}}}}},
		"config": {"jobs": [{"endpoint": "u"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Transport: h}.withDefaults()
	c, _, err := newClient(cfg.plans[0], o, new(traffic), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConcurrentRequestsShareALogin sends many requests at once, before the first login and when it has expired.
func TestConcurrentRequestsShareALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logins atomic.Int64
		c := loginClient(t, `10`, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			if r.URL.Path == "/login" {
				fmt.Fprintf(w, `{"t": "t%d"}`, logins.Add(1))
			} else if want := fmt.Sprintf("t%d", logins.Load()); r.Header.Get("T") != want {
				t.Errorf("a request is signed %q, want %q", r.Header.Get("T"), want)
			} else {
				fmt.Fprint(w, `[]`)
			}
		})
		for round := range int64(3) {
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					r, err := c.plan.apiRequest(apiCall{endpoint: "u"})
					if err == nil {
						_, err = c.fetch(t.Context(), r, new(answerFormat))
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if logins.Load() != round+1 {
				t.Fatalf("got %d logins in %d rounds, want %v", logins.Load(), round+1, round+1)
			}
			time.Sleep(11 * time.Second)
		}
	})
}

// TestConcurrentRequestsShareAFailure lets a login fail. Every waiting request gets its error, none logs in again.
func TestConcurrentRequestsShareAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logins atomic.Int64
		c := loginClient(t, `10`, func(w http.ResponseWriter, _ *http.Request) {
			logins.Add(1)
			time.Sleep(time.Second)
			http.Error(w, "no", http.StatusForbidden)
		})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := c.auth.(*authenticator).credentials(t.Context())
				if failed, ok := errors.AsType[*RequestError](err); !ok || !failed.Login || failed.Status != http.StatusForbidden {
					t.Errorf("error %v", err)
				}
			})
		}
		wg.Wait()
		if logins.Load() != 1 {
			t.Errorf("got %d logins, want 1", logins.Load())
		}
	})
}

// TestLoginOutlivesItsCaller cancels the request that logs in, while another waits for it.
func TestLoginOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := loginClient(t, `10`, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
			}
			fmt.Fprint(w, `{"t": 1}`)
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.auth.(*authenticator).credentials(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if _, err := c.auth.(*authenticator).credentials(t.Context()); err != nil {
				t.Errorf("error %v", err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

func TestPublicAddress(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1": true, "::ffff:8.8.8.8": true, "193.0.0.1": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "0.0.0.0": false,
		"100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "::1": false, "::": false, "fe80::1%eth0": false,
		"fd00::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false, "2001:db8::1": false,
		"::7f00:1": false, "fec0::1": false, "100::1": false, "2001:0:1::1": false, "3fff::1": false, "192.88.99.1": false, "2001:4860:4860::8888": true,
	} {
		if got := publicAddress(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s counts as public: %v, want %v", addr, got, want)
		}
	}
}

func TestRedactor(t *testing.T) {
	r := new(redactor)
	r.add("abc")
	r.add("1")
	r.add("secret")
	r.add("my secret text")
	r.add(" ")
	for in, want := range map[string]string{
		"my secret text": "***", "a secret": "a ***", "page 1 of 10": "page *** of 10", "1": "***", "11": "11", "abcd abc xabc": "abcd *** xabc",
		"my+secret+text my%20secret%20text": "*** ***", "nothing": "nothing", "": "",
	} {
		if got := r.clean(in); got != want {
			t.Errorf("%q is cleaned to %q, want %q", in, got, want)
		}
	}
	long := strings.Repeat("x ", 4090) + "my secret text that is cut at the end of the excerpt"
	if got := r.excerpt(long); strings.Contains(got, "secret") || len(got) > 510 {
		t.Errorf("excerpt %q", got)
	}
}

// TestRedactorDecodes finds secrets in texts that a server, and whoever is between, has escaped again.
func TestRedactorDecodes(t *testing.T) {
	r := new(redactor)
	r.add("a&b/<c> d=é")
	r.add("tok")
	for in, want := range map[string]string{
		`{"k": "a\u0026b\/\u003cc\u003e d=\u00E9"}`: `{"k": "***"}`, "a&amp;b/&lt;c&gt; d=&#233;!": "***!", "a&#38;b&#x2f;&#x3C;c&gt; d=&eacute;": "***", "x=a%26b%2f%3cc%3e+d%3d%c3%a9&y=1": "x=***&y=1",
		"a%2526b%252F%253Cc%253E%2520d%253D%25C3%25A9": "***", `\"a%5Cu0026b/<c> d=é\"`: `\"***\"`, "Basic " + base64Std("user:a&b/<c> d=é"): "Basic ***", "/x/" + base64URL("a&b/<c> d=é") + "/y": "/x/***/y",
		base64Std("12") + "." + base64Std("1a&b/<c> d=é2"): base64Std("12") + ".***", "token tok %74ok": "token *** ***", "100% of \\d & more; &x": "100% of \\d & more; &x", "a&b/<c> d=": "a&b/<c> d=",
	} {
		if got := r.clean(in); got != want {
			t.Errorf("%s is cleaned to %s, want %s", in, got, want)
		}
		if r.holds(in) != (in != want) {
			t.Errorf("holds of %s is %v", in, r.holds(in))
		}
	}
}

func base64Std(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
func base64URL(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }

// FuzzRedactor wraps a secret in escapes, and looks whether it can be read in the redacted text.
func FuzzRedactor(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add("pass&word", "x", uint8(1), uint8(2))
	f.Add("pass&word\\ud800", "x", uint8(3), uint8(2)) // an apparent escape in the value is decoded with the escapes around it
	f.Add("as%2F\u0085&word", "x", uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, value, around string, first, second uint8) {
		value = strings.TrimSpace(value)
		if len(value) <= shortSecret || !utf8.ValidString(value) || strings.Contains(around, value) || strings.Contains(redacted+around+redacted, value) {
			return
		}
		ways := []func(string) string{
			func(s string) string { return s }, url.QueryEscape, url.PathEscape, html.EscapeString, func(s string) string { b, _ := json.Marshal(s); return string(b) },
			func(s string) string { return string(tree.OfString(s).AppendJSON(nil, tree.Escaped)) }, func(s string) string { return strings.ToLower(url.PathEscape(s)) },
		}
		if strings.ContainsAny(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			ways = ways[:6]
		}
		r := new(redactor)
		r.add(value)
		shown := ways[int(second)%len(ways)](ways[int(first)%len(ways)](value))
		if got := r.clean(around + " " + shown + " " + around); strings.Contains(got, shown) {
			t.Errorf("%q is shown in %q", value, got)
		}
	})
}

// TestRedactorIsBounded adds values without end, as a run that logs in before every request does.
func TestRedactorIsBounded(t *testing.T) {
	config := new(redactor)
	config.add("lasting secret")
	r := config.fork()
	r.add("used again and again")
	for i := range 10_000 {
		r.add(fmt.Sprintf("token/%d", i))
		r.add("used again and again")
	}
	if len(r.recent) > maxRecent || cap(r.recent) > 4*maxRecent {
		t.Errorf("%d texts are kept", len(r.recent))
	}
	if got := r.clean("lasting secret, used again and again, token%2F9999"); got != "***, ***, ***" {
		t.Error(got)
	}
	if len(config.recent) > 0 || len(config.lasting) != 1 {
		t.Error("a run changes its configuration")
	}
}

func TestCombinations(t *testing.T) {
	var got []string
	for c := range combinations([][]string{{"a", "b"}, {"1", "2"}, {"x"}}) {
		got = append(got, strings.Join(c, ""))
		if len(got) == 3 {
			break
		}
	}
	if s := strings.Join(got, " "); s != "a1x a2x b1x" {
		t.Error(s)
	}
	for range combinations([][]string{{"a"}, {}}) {
		t.Error("an empty list has a combination")
	}
}
