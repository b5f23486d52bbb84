package mapping

import "unsafe"

// unsafeString returns b as a string without a copy. The string must not outlive the next change of b.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unsafeBytes returns the bytes of s without a copy. They must not be changed.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// unsafePointer returns where the bytes of s are, to find out whether two strings are the same memory.
func unsafePointer(s string) *byte { return unsafe.StringData(s) }
