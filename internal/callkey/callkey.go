// Package callkey makes the keys of repeatable calls for request handlers.
package callkey

import (
	"encoding/binary"
	"errors"
)

// Header is the header that names a request. Repeating the request adds only missing rows.
const Header = "Idempotency-Key"

// maxLength is the longest key from a sender, in bytes.
const maxLength = 255

// ErrKey says that a request has several keys, or one that does not have 1 to 255 bytes.
var ErrKey = errors.New("the Idempotency-Key must have 1 to 255 characters")

// Of returns the key of a request from the values of its header, empty if there are none. scope separates requests whose
// senders may choose the same key.
func Of(values []string, scope ...string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || values[0] == "" || len(values[0]) > maxLength {
		return "", ErrKey
	}
	return Join(append(scope, values[0])...), nil
}

// Event returns the key of a request with events to a source. The key contains nothing that can change between two attempts. So it contains
// neither the secret nor the way in which the source splits bodies.
func Event(values []string) (string, error) {
	return Of(values, "event")
}

// OTLP returns the key of a request with telemetry of one signal.
func OTLP(values []string, signal string) (string, error) {
	return Of(values, "otlp", signal)
}

// All returns the keys that a call to a source may have if its sender or program gave it the text as a key.
func All(text string) []string {
	keys, values := []string{text}, []string{text}
	add := func(key string, err error) {
		if err == nil { // else a sender cannot have chosen it: a key of a Go call may be longer
			keys = append(keys, key)
		}
	}
	add(Event(values))
	for _, signal := range []string{"logs", "metrics", "traces"} {
		add(OTLP(values, signal))
	}
	return keys
}

// Join joins the parts of a key. Different parts never give the same key.
func Join(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return string(b)
}
