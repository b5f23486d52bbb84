//go:build !linux

package dir

import (
	"errors"
	"os"
)

func (disk) Exchange(a, b string) error {
	return &os.LinkError{Op: "exchange", Old: a, New: b, Err: errors.ErrUnsupported}
}
