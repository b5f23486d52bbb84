// Package hostname tells whether a request may name a host.
package hostname

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Known reports whether a request may name the host. The page of an attacker can make its own host name point to this machine, so that browsers
// treat the two as the same origin. It cannot do so with an IP address or a loopback name. "*" in names allows every host.
func Known(host string, names ...string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	return slices.ContainsFunc(names, func(known string) bool { return known == "*" || strings.EqualFold(known, name) })
}

// Local reports whether a request has arrived at a loopback address. Only programs of this machine reach such an address, for example a
// browser with the page of an attacker.
func Local(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}
