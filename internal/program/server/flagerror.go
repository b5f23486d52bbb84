package server

import "fmt"

// FlagError is a mistake in the value of a flag, or in the values of several that do not fit together. Its text shows no secret of them.
type FlagError struct {
	// Flags are the names, without a dash, of the flags that the mistake is about. The first one is the one to change.
	Flags []string
	// Text continues after the name of the first flag: "is 0, must be positive".
	Text string
	// ShowsValue is set if Text may have a part of a value, or another form of it.
	ShowsValue bool
}

// Error implements error.
func (e *FlagError) Error() string { return "-" + e.Flags[0] + " " + e.Text }

// WrongValue returns a [FlagError] whose text may have a part of the value.
func WrongValue(flag, format string, args ...any) *FlagError {
	return &FlagError{Flags: []string{flag}, Text: fmt.Sprintf(format, args...), ShowsValue: true}
}

// WrongFlags returns a [FlagError] whose text has no part of a value.
func WrongFlags(text string, flags ...string) *FlagError { return &FlagError{Flags: flags, Text: text} }
