// Package missing has the stand-in for a target that the options of this process do not have.
package missing

import (
	"context"

	"github.com/forebay/forebay/driver"
)

// Target stands in for a target of an earlier process. Rows that wait for it stay in staging: the buffer lets no file expire whose target is missing,
// because only the options can end the wait.
type Target struct {
	// Reason says which target is missing, and what to do.
	Reason error
}

// Ensure implements [driver.Target].
func (t Target) Ensure(context.Context, driver.Table) error { return driver.Permanent(t.Reason) }

// Import implements [driver.Target].
func (t Target) Import(context.Context, *driver.File) error { return driver.Permanent(t.Reason) }
