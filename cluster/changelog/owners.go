package changelog

import (
	"context"
	"fmt"
	"iter"
	"regexp"
)

// Version identifies a stored value as it was read or written. A version of a key never returns. Zero means that there is no value.
type Version uint64

// Versioned is a value of Owners.
type Versioned struct {
	// Key of the value. Value is the receiver's.
	Key   string
	Value []byte
	// CompareAndSet takes Version as old.
	Version Version
}

// Owners is a small replicated store of values that change by comparing and setting. It says who owns an instance. Drivers
// implement it. All methods may be called concurrently. Get and CompareAndSet refuse what [CheckKey] does at once, and nothing is unknown
// then.
type Owners interface {
	// Get may return an older value than the newest. Nothing is decided by it. A zero Version says that there is none.
	Get(ctx context.Context, key string) (Versioned, error)
	// CompareAndSet writes a value if the key still has this version, and returns the new version. ErrLost means that its version differs.
	// After any other error it is not known whether the value was written, or will be.
	CompareAndSet(ctx context.Context, key string, old Version, value []byte) (Version, error)
	// Delete removes the value of a key if it still has this version. ErrLost means that its version differs, or it has no value. After
	// any other error it is not known whether the value was removed, or will be. The key can be set again from the version 0.
	Delete(ctx context.Context, key string, old Version) error
	// Watch yields the values of all keys with a prefix, then a zero Versioned, then each change until ctx ends. It may skip
	// versions between two changes, and ends with an error when it cannot continue. It does not yield that a value was removed.
	Watch(ctx context.Context, prefix string) iter.Seq2[Versioned, error]
}

var keyName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// CheckKey returns an error if a key of [Owners] is not made of words of letters, digits, hyphens and underscores, with single dots
// between them, and at most 256 bytes long.
func CheckKey(key string) error {
	if len(key) > 256 || !keyName.MatchString(key) {
		return fmt.Errorf("the key %.300q must be words of letters, digits, hyphens or underscores with dots between them, of at most 256 bytes", key)
	}
	return nil
}
