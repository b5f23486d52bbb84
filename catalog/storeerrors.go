package catalog

import (
	"fmt"
	"time"
)

// FailedError says that the disk below the store of [OpenStore] is broken, full or absent. Repair it. Nothing has to be restarted.
// The first call after RetryAfter reopens the store. Until then definitions are read from memory.
type FailedError struct {
	// Dir is the folder of the store.
	Dir string
	// RetryAfter is the time until the store tries to reopen itself; 0 when the next call does.
	RetryAfter time.Duration
	// Err is the cause.
	Err error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("catalog: the store in %s failed: %v; a later call reopens it, check the disk", e.Dir, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// DamageError says that the disk returned other bytes than the store of [OpenStore] had written, or lost a file. No retry fixes
// it. Close the catalog and open it again. That salvages all records that can still be read. A lost definition is missing,
// or is as it was before a change. The log says what could not be read. A copy of [Catalog.Checkpoint] in place of the folder may have
// more. Waiting rows are in a different folder and reach their tables in any case.
type DamageError struct {
	// Dir is the folder of the store.
	Dir string
	// Err is the cause.
	Err error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("catalog: the store in %[1]s is damaged: close the catalog and open it again to salvage the records that can be read, or "+
		"move %[1]s away and put a checkpoint of it in its place: %[2]v", e.Dir, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// InUseError says that another catalog, of this process or a different one, has the folder open.
type InUseError struct {
	// Dir is the folder of the store.
	Dir string
	// Err is the error of the operating system.
	Err error
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("catalog: %s is in use: close the catalog that has it open, or choose another folder", e.Dir)
}

func (e *InUseError) Unwrap() error { return e.Err }
