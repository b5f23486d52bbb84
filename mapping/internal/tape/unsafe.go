package tape

import "unsafe"

// AsString returns b as a string without a copy. The string must not outlive the next change of b.
func AsString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// AsBytes returns the bytes of s without a copy. They must not be changed.
func AsBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
