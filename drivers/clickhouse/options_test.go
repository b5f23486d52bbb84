package clickhouse

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string][]string{
		"clickhouse://host/db":                        {"http://host:8123/"},
		"clickhouse://user:p%40ss@host:99/db":         {"http://host:99/"},
		"clickhouse://u:p@host/db?tls=true":           {"https://host:8443/"},
		"clickhouse://u:p@one,two:99/db?tls=false":    {"http://one:8123/", "http://two:99/"},
		"clickhouse://[::1]:99/db?tls=skip-verify":    {"https://[::1]:99/"},
		"clickhouse://u:p@host/my%20data%2Fbase-1_2?": {"http://host:8123/"},
	} {
		o := Options{}
		if len(want) > 1 {
			o.Engine = "ReplicatedMergeTree"
		}
		target, err := Open(address, o)
		if err != nil {
			t.Errorf("Open(%s) = %v", address, err)
			continue
		}
		if !slices.Equal(target.client.hosts, want) {
			t.Errorf("Open(%s) has the hosts %q, want %q", address, target.client.hosts, want)
		}
	}
	for address, word := range map[string]string{
		"mysql://host/db": "cannot be read", "clickhouse://u:hunter2@x@host/db": "cannot be read", "clickhouse://u:hun/ter2@host/db": "cannot be read",
		"clickhouse://host": "database is empty", "clickhouse:///db": "no host", "clickhouse://host/db?x=hunter2": "parameter \"x\"",
		"clickhouse://host/db?tls=hunter2": "tls in the address", "clickhouse://a,b/db": "several hosts", "clickhouse://host:port/db": "cannot be read",
	} {
		if err := Validate(address, Options{}); err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Validate(%s) = %v, want %q and no part of the password", address, err, word)
		}
	}
	for word, o := range map[string]Options{
		"BlockBytes": {BlockBytes: 7}, "Window": {Window: -1}, "Engine": {Engine: "SummingMergeTree"}, "OrderBy": {OrderBy: []string{""}},
		"async_insert": {Settings: map[string]string{"async_insert": "1"}}, "Token": {Token: func(context.Context) (string, error) { return "", nil }},
	} {
		if err := Validate("clickhouse://u:p@host/db", o); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("Validate(%+v) = %v, want %s", o, err, word)
		}
	}
}

// A request has a token and no password. After a host that is away, the next request goes to the next host.
func TestTransport(t *testing.T) {
	var mu sync.Mutex
	var got []*http.Request
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "https://")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := closed.Addr().String()
	_ = closed.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	token := func(context.Context) (string, error) { return "a.b.c", nil }
	target, err := Open("clickhouse://"+away+","+host+"/db?ca="+ca, Options{Token: token, Engine: "ReplicatedMergeTree"})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	for range 2 {
		if err := target.client.exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	if len(got) != 2 || got[0].Header.Get("Authorization") != "Bearer a.b.c" || got[0].Header.Get("X-ClickHouse-User") != "" || got[0].URL.Query().Get("database") != "db" {
		t.Errorf("the server got %d requests, %v", len(got), got)
	}
	mu.Unlock()
	if target.client.current.Load() != 1 {
		t.Error("the next request would begin with the host that is away")
	}
}

// Errors are held or retried by their code.
func TestErrors(t *testing.T) {
	answer := func(status int, code, text string) error {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if code != "" {
				w.Header().Set("X-ClickHouse-Exception-Code", code)
			}
			http.Error(w, text, status)
		}))
		defer s.Close()
		target, err := Open("clickhouse://u:p@"+strings.TrimPrefix(s.URL, "http://")+"/db", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		return target.Ensure(t.Context(), table("t", col("a", datatype.String)))
	}
	drivertest.Permanent(t, "a wrong password", answer(403, "516", "Code: 516. DB::Exception: u: Authentication failed. (AUTHENTICATION_FAILED)"), "516", "AUTHENTICATION_FAILED")
	drivertest.Permanent(t, "a right that is missing", answer(500, "497", "Code: 497. DB::Exception: u: Not enough privileges. (ACCESS_DENIED)"), "Not enough")
	drivertest.Permanent(t, "a proxy that refuses", answer(403, "", "<html>"), "403")
	for _, err := range []error{
		answer(500, "252", "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS)"), answer(500, "241", "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"),
		answer(503, "", ""), answer(502, "", "<html>"),
	} {
		if err == nil || strings.Contains(err.Error(), "<html>") {
			t.Errorf("got %v, want an error without the page of a proxy", err)
		}
		if driver.IsPermanent(err) {
			t.Errorf("%v is held, want a retry", err)
		}
	}
}
