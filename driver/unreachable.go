package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// DialFailure returns the address that could not be dialed, and the reason in the words of the system. ok is false for an error of anything
// but a dial.
func DialFailure(err error) (address, reason string, ok bool) {
	dial, found := errors.AsType[*net.OpError](err)
	if !found || dial.Op != "dial" || errors.Is(err, context.Canceled) {
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

// HintUnreachable returns err. If a server could not be reached, the text says which and what to check, in place of the words of libraries. The name of
// the driver, with which err begins, stays.
func HintUnreachable(err error) error {
	address, reason, ok := DialFailure(err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("no server responds at %s, %s: is it running, and is the address right?", address, reason)
	if driver, _, named := strings.Cut(err.Error(), ": "); named && driver != "dial" && !strings.ContainsAny(driver, " \n") {
		text = driver + ": " + text
	}
	return &unreachableError{text, err}
}

type unreachableError struct {
	text string
	err  error
}

func (e *unreachableError) Error() string { return e.text }

func (e *unreachableError) Unwrap() error { return e.err }
