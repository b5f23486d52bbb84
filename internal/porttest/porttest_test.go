package porttest_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/forebay/forebay/internal/porttest"
)

// All addresses can be listened on at once, and no outgoing connection gets their ports.
func TestAddresses(t *testing.T) {
	const n = 50
	all, err := porttest.Addresses(n)
	if err != nil || len(all) != n {
		t.Fatalf("got %q, %v, want no error and len(all) == %v", all, err, n)
	}
	for _, a := range all {
		if port := netip.MustParseAddrPort(a).Port(); port < 20000 || port >= 32000 {
			t.Errorf("%s has a port of outgoing connections", a)
		}
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Error(err)
			continue
		}
		defer l.Close()
	}
}
