package extractor

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// A privateAddressError refuses a connection to an address that is not public.
type privateAddressError struct{ addr netip.Addr }

func (e *privateAddressError) Error() string {
	return fmt.Sprintf("the address %s is not public, and connections to private addresses are not allowed", e.addr)
}

var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"), netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("2001::/23"),
	// Translations, whose last bytes are an IPv4 address of the translated network.
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
}

// publicAddress reports whether an address belongs to the public Internet.
func publicAddress(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// guardDial is a net.Dialer.Control. It sees the address after the name was resolved, for every connection, so that
// neither a redirect nor a name that changes its address gets around it.
func guardDial(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	if !publicAddress(addr) {
		return &privateAddressError{addr}
	}
	return nil
}
