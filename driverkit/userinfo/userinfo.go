// Package userinfo checks the user name and the password in a URL.
package userinfo

import (
	"errors"
	"strings"
)

var errUnescaped = errors.New("an @ follows the host: a password that contains /, ?, # or @ ends at the wrong place, and a part of it is taken " +
	"for the host. Write @ as %40, / as %2F, ? as %3F, # as %23")

// Check refuses a URL in which a part of the password may be taken for the host. Errors about the host would print this part. The error
// contains nothing of the URL.
func Check(url string) error {
	_, rest, found := strings.Cut(url, "://")
	if !found {
		return nil
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return errUnescaped
	}
	return nil
}
