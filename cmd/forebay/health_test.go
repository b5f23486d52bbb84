package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// forebay health exits with the state of the server, and asks no other machine.
func TestHealth(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readiness-check" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, r.Host, r.URL.Path)
	}))
	defer srv.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	addr := srv.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	for _, tt := range []struct {
		env    map[string]string
		args   string
		status int
		want   string
	}{
		{nil, "-addr " + addr, 0, "localhost/health-check\n"},
		{map[string]string{"FOREBAY_ADDR": addr}, "", 0, "localhost/health-check\n"},
		{nil, "-addr :" + port, 0, "localhost/health-check\n"},
		{nil, "-addr 0.0.0.0:" + port, 0, "localhost/health-check\n"},
		{nil, "-ready -addr " + addr, failed, "/readiness-check responds 503 Service Unavailable: localhost/readiness-check\n"},
		{nil, "-addr 127.0.0.1:1", failed, "no server responds at http://127.0.0.1:1/health-check, connection refused: start one with forebay serve"},
		{nil, "-addr here", wrongUsage, "must be HOST:PORT"},
		{nil, "extra", wrongUsage, "flags begin with a dash"},
		{nil, "-adr x", wrongUsage, "-adr"},
	} {
		status, out, errs := call(t, "", tt.env, append([]string{"health"}, strings.Fields(tt.args)...)...)
		if status != tt.status || !strings.Contains(out+errs, tt.want) || (status == 0) != (errs == "") {
			t.Errorf("forebay health %s with %v: got status %d, stdout %q, stderr %q; want %d, %q", tt.args, tt.env, status, out, errs, tt.status, tt.want)
		}
	}
}

// A variable that is not set has the content of the file that NAME_FILE names. This holds for flags, for values of the configuration file, and for
// the commands that speak to a server. A file that cannot be read is a mistake.
func TestSecretsInFiles(t *testing.T) {
	folder := t.TempDir()
	secret, empty, token := filepath.Join(folder, "secret"), filepath.Join(folder, "empty"), filepath.Join(folder, "token")
	write(t, secret, webSecret+"\n")
	write(t, empty, "\n")
	write(t, token, "token-in-a-file\r\n")
	const text = "sources: [{id: web, secret: '${WEB_SECRET}', sinks: [{id: s, table: t, columns: [{name: id, type: uuid}]}]}]"
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"WEB_SECRET_FILE": secret}, ""},
		{map[string]string{"WEB_SECRET_FILE": secret, "WEB_SECRET": ""}, ""},
		{map[string]string{"WEB_SECRET_FILE": "none", "WEB_SECRET": webSecret}, ""},
		{map[string]string{"WEB_SECRET_FILE": secret, "WEB_SECRET": "short"}, "secret has 5 characters"},
		{map[string]string{"WEB_SECRET_FILE": filepath.Join(folder, "none")}, "WEB_SECRET_FILE: open " + filepath.Join(folder, "none")},
		{map[string]string{"WEB_SECRET_FILE": empty}, "WEB_SECRET_FILE: " + empty + " is empty"},
		{map[string]string{"WEB_SECRET_FILE": secret, "FOREBAY_LOG_LEVEL_FILE": secret}, "FOREBAY_LOG_LEVEL"},
	} {
		status, out, errs := checkFile(t, text, tt.env)
		if (status == 0) != (tt.want == "") || !strings.Contains(errs, tt.want) {
			t.Errorf("check with %v: got status %d\n%s%s\nwant %q", tt.env, status, out, errs, tt.want)
		}
	}

	var got atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("X-StorageApi-Token"))
		http.Error(w, "{}", http.StatusTeapot)
	}))
	defer srv.Close()
	list := []string{"damage", "list", "-api", srv.URL}
	if call(t, "", map[string]string{"FOREBAY_TOKEN_FILE": token}, list...); got.Load() != "token-in-a-file" {
		t.Errorf("the token of a call is %q, want the content of the file", got.Load())
	}
	if status, _, errs := call(t, "", map[string]string{"FOREBAY_TOKEN_FILE": empty}, list...); status == 0 || !strings.Contains(errs, "FOREBAY_TOKEN_FILE: "+empty+" is empty") {
		t.Errorf("damage list with an empty file: got status %d, %q", status, errs)
	}
}
