package trigger

import "fmt"

// Reason says why waiting rows were moved. [Conditions.Due] finds the first four. The owner of the rows gives the others,
// which move rows whatever the conditions say.
type Reason uint8

const (
	// None means that the rows keep waiting.
	None Reason = iota
	// ByCount means that the count condition is met.
	ByCount
	// BySize means that the size condition is met.
	BySize
	// ByInterval means that the interval condition is met.
	ByInterval
	// Changed means that the conditions or the definition of the sink have changed.
	Changed
	// Requested means that a caller asked for a flush.
	Requested
	// Stopped means that the sink was disabled or removed.
	Stopped
	// Full means that the file holds the most slices it may.
	Full
	// Copied means that a checkpoint was made, which must not contain open files.
	Copied
	// Pressure means that waiting rows take most of the space that a bound leaves.
	Pressure

	reasons // the number of reasons
)

var reasonNames = [reasons]string{
	"none", "count", "size", "interval", "changed", "requested", "stopped", "full", "copied", "pressure",
}

// String returns one lower-case word for log lines and metric labels.
func (r Reason) String() string {
	if r >= reasons {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasonNames[r]
}

// MarshalText returns the word of String, so that JSON and logs show it in place of a number.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
