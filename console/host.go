package console

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// KnownHost reports whether a request may name the host, with or without a port. The page of an attacker can make its own host name point to
// this machine, so that browsers treat the two as the same origin. It cannot do so with an IP address or a loopback name. "*" in names allows
// every host.
func KnownHost(host string, names ...string) bool {
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
