// Package porttest chooses ports for servers of tests that take an address and no listener.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports are below the ports that systems give to outgoing connections and to listeners on port 0, so another test takes one only
// if it chooses the same.
const least, beyond = 20000, 32000

// Addresses returns n different addresses, each 127.0.0.1 and a port without a listener.
func Addresses(n int) (addresses []string, err error) {
	for attempts := 0; len(addresses) < n; attempts++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", least+rand.IntN(beyond-least)))
		if err != nil {
			if attempts >= 100*n {
				return nil, err
			}
			continue
		}
		defer l.Close() // held until the others are chosen
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
