package catalog

import (
	"fmt"
	"time"
)

// FailedError says that the disk below the store of [OpenStore] failed: it is broken, full or absent. The store opens
// itself again by the first call after RetryAfter; definitions are still read from memory. Repair the disk; nothing has to
// be restarted.
type FailedError struct {
	// Dir is the folder of the store.
	Dir string
	// RetryAfter is the time until the store tries to reopen itself; 0 when the next call does.
	RetryAfter time.Duration
	// Err is the cause.
	Err error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("catalog: the store in %s failed, it is opened anew by a later call; check the disk: %v", e.Dir, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// DamageError says that the disk gave back other bytes than the store of [OpenStore] had written, or lost a file. No
// retry fixes it: put a copy made by [Catalog.Checkpoint] in the place of the folder, or move the folder away to begin
// without definitions. Rows that wait are not in it and reach their tables in either case.
type DamageError struct {
	// Dir is the folder of the store.
	Dir string
	// Err is the cause.
	Err error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("catalog: the store in %[1]s is damaged: close the catalog, move %[1]s away, and put a checkpoint of it in "+
		"its place, or nothing to begin without definitions: %[2]v", e.Dir, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// InUseError says that another process, or another catalog of this one, has the folder open. Close that first, or choose
// another folder.
type InUseError struct {
	// Dir is the folder of the store.
	Dir string
	// Err is what the operating system said.
	Err error
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("catalog: %s is in use: close the catalog that has it open, or choose another folder: %v", e.Dir, e.Err)
}

func (e *InUseError) Unwrap() error { return e.Err }
