//go:build !unix || solaris || aix

package parts

import (
	"errors"
	"fmt"
	"io"

	"github.com/forebay/forebay/driver"
)

// Lock implements [FileSystem].
func (Disk) Lock(string, bool) (unlock io.Closer, ok bool, err error) {
	return nil, false, driver.Permanent(fmt.Errorf("partitions and merging need flock, which this system lacks: %w", errors.ErrUnsupported))
}
