// Package unreachable explains errors of servers that cannot be reached.
package unreachable

import (
	"errors"
	"fmt"
	"net"
)

// Cause returns the address that could not be dialed, and the reason in the words of the system. ok is false for every other error.
func Cause(err error) (address, reason string, ok bool) {
	dial, found := errors.AsType[*net.OpError](err)
	if !found || dial.Op != "dial" {
		return "", "", false
	}
	if unknown, isDNS := errors.AsType[*net.DNSError](dial.Err); isDNS {
		return unknown.Name, unknown.Err, true
	}
	if dial.Addr == nil {
		return "", "", false
	}
	last := dial.Err
	for inner := errors.Unwrap(last); inner != nil; inner = errors.Unwrap(inner) {
		last = inner
	}
	return dial.Addr.String(), last.Error(), true
}

// Explain returns err. If a server could not be reached, its text begins with that and says what to check.
func Explain(err error) error {
	address, reason, ok := Cause(err)
	if !ok {
		return err
	}
	return fmt.Errorf("no server answers at %s, %s: is it running, and is the address right? %w", address, reason, err)
}
