// Package requestid makes the ids in the X-Request-Id header of HTTP responses. An id contains the time of its request, so the outcome of the
// request can be looked up although the id is not stored.
//
//	at, ok := requestid.Time(response.Header.Get("X-Request-Id"))
package requestid

import (
	"math/rand/v2"
	"time"
)

// Length is the number of characters of an id.
const Length = 15

// clock is how many characters are the milliseconds since 1970, enough until 2059. Ids of the same millisecond differ in the others.
const clock = 8

const digits = "0123456789abcdefghijklmnopqrstuvwxyz"

// New returns an id for a request that arrived at a time. Later ids are greater, to the millisecond.
func New(at time.Time) string {
	var id [Length]byte
	millis := uint64(at.UnixMilli())
	for i := clock - 1; i >= 0; i-- {
		id[i] = digits[millis%36]
		millis /= 36
	}
	random := rand.Uint64()
	for i := clock; i < Length; i++ {
		id[i] = digits[random%36]
		random /= 36
	}
	return string(id[:])
}

// Time returns when the request with an id came, to the millisecond below. ok is false for a text that cannot be an id.
func Time(id string) (at time.Time, ok bool) {
	if len(id) != Length {
		return time.Time{}, false
	}
	var millis int64
	for i := range Length {
		var digit int64
		switch c := id[i]; {
		case '0' <= c && c <= '9':
			digit = int64(c - '0')
		case 'a' <= c && c <= 'z':
			digit = int64(c-'a') + 10
		default:
			return time.Time{}, false
		}
		if i < clock {
			millis = millis*36 + digit
		}
	}
	return time.UnixMilli(millis), true
}
