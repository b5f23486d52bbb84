package wire

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestClientIP(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	tests := []struct {
		name      string
		peer      string
		forwarded []string
		trusted   []netip.Prefix
		want      string // "" is the unknown address
	}{
		{"peer", "192.0.2.7:1234", nil, nil, "192.0.2.7"},
		{"IPv6 peer", "[2001:db8::1]:1234", nil, nil, "2001:db8::1"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.7]:1234", nil, nil, "192.0.2.7"},
		{"Unix socket", "@", nil, proxies, ""},
		{"header without trust", "192.0.2.7:1234", []string{"203.0.113.9"}, nil, "192.0.2.7"},
		{"header of a stranger", "192.0.2.7:1234", []string{"203.0.113.9"}, proxies, "192.0.2.7"},
		{"one proxy", "10.1.1.1:80", []string{"203.0.113.9"}, proxies, "203.0.113.9"},
		{"IPv4 proxy seen through IPv6", "[::ffff:10.1.1.1]:80", []string{"203.0.113.9"}, proxies, "203.0.113.9"},
		{"IPv6 proxy with zone", "[fd00::1%eth0]:80", []string{"203.0.113.9"}, proxies, "203.0.113.9"},
		{"forged left part", "10.1.1.1:80", []string{"1.2.3.4, 203.0.113.9"}, proxies, "203.0.113.9"},
		{"two proxies", "10.1.1.1:80", []string{"203.0.113.9, 10.2.2.2"}, proxies, "203.0.113.9"},
		{"two lines", "10.1.1.1:80", []string{"1.2.3.4", "203.0.113.9,10.2.2.2"}, proxies, "203.0.113.9"},
		{"with ports", "10.1.1.1:80", []string{"[2001:db8::5]:99, 10.2.2.2:4"}, proxies, "2001:db8::5"},
		{"in brackets", "10.1.1.1:80", []string{"[2001:db8::5]"}, proxies, "2001:db8::5"},
		{"garbage ends the walk", "10.1.1.1:80", []string{"203.0.113.9, unknown, 10.2.2.2"}, proxies, "10.2.2.2"},
		{"empty element", "10.1.1.1:80", []string{"203.0.113.9, "}, proxies, "10.1.1.1"},
		{"empty header", "10.1.1.1:80", []string{""}, proxies, "10.1.1.1"},
		{"proxies only", "10.1.1.1:80", []string{"10.3.3.3, 10.2.2.2"}, proxies, "10.3.3.3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{}}
			if tt.forwarded != nil {
				r.Header["X-Forwarded-For"] = tt.forwarded
			}
			got := ""
			if addr := ClientIP(r, tt.trusted); addr.IsValid() {
				got = addr.String()
			}
			if got != tt.want {
				t.Errorf("clientIP = %q, want %q", got, tt.want)
			}
		})
	}
}
