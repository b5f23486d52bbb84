//go:build !linux

package parts

import (
	"errors"
	"os"
)

// Exchange implements [FileSystem].
func (Disk) Exchange(a, b string) error {
	return &os.LinkError{Op: "exchange", Old: a, New: b, Err: errors.ErrUnsupported}
}
