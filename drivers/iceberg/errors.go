package iceberg

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/apache/iceberg-go/catalog/rest"

	"github.com/forebay/forebay/driver"
)

// wrap adds the subject of a call, and marks errors that stay until an operator changes something.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	for _, lasting := range []error{rest.ErrBadRequest, rest.ErrUnauthorized, rest.ErrForbidden} {
		if errors.Is(err, lasting) {
			err = driver.Permanent(err)
			break
		}
	}
	return fmt.Errorf("iceberg: %s: %w", fmt.Sprintf(format, args...), err)
}

// catch turns a panic of the library into an error, because the same call would panic again.
func catch(err *error) {
	if r := recover(); r != nil {
		*err = driver.Permanent(fmt.Errorf("iceberg: the library panicked: %v: %.2000s", r, debug.Stack()))
	}
}
