package wire

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientIP returns the address of the sender. This is the TCP peer or, when the peer is a trusted proxy, the rightmost address of
// X-Forwarded-For that is not one. Addresses further left come from the sender, who can write anything. The zero Addr
// means that the address is unknown, for example on a Unix socket.
func ClientIP(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap()
	if !isTrusted(addr, trusted) {
		return addr
	}
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for line != "" {
			var hop string
			if i := strings.LastIndexByte(line, ','); i >= 0 {
				line, hop = line[:i], line[i+1:]
			} else {
				line, hop = "", line
			}
			next, ok := parseHop(strings.TrimSpace(hop))
			if !ok {
				return addr // a trusted proxy did not write this, so nothing further left counts either
			}
			addr = next
			if !isTrusted(addr, trusted) {
				return addr
			}
		}
	}
	return addr
}

// parseHop reads an address with or without a port, as proxies write it.
func parseHop(s string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return addr.Unmap(), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap(), true
	}
	return netip.Addr{}, false
}

func isTrusted(addr netip.Addr, trusted []netip.Prefix) bool {
	addr = addr.WithZone("")
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}
