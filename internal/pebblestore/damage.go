package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// DamageError reports that files of a store have changed, or that a record in it is invalid. No retry fixes it.
type DamageError struct {
	// Err describes the damage.
	Err error
	// Index is set when only what leads to the records is damaged, so nothing need be lost.
	Index bool
}

func (e *DamageError) Error() string { return e.Err.Error() }
func (e *DamageError) Unwrap() error { return e.Err }

// Damaged returns a [*DamageError].
func Damaged(format string, args ...any) error {
	return &DamageError{fmt.Errorf(format, args...), false}
}

// DamagedIndex is [Damaged] for what leads to the records.
func DamagedIndex(format string, args ...any) error {
	return &DamageError{fmt.Errorf(format, args...), true}
}

// IsDamage reports whether an error of reading means damage. Other errors may pass.
func IsDamage(err error) bool {
	return errors.As(err, new(*DamageError)) || pebble.IsCorruptionError(err) ||
		errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrZeroedChunk) || errors.Is(err, record.ErrUnexpectedEOF)
}

// MarkDamage returns an error of opening or reading the store in a folder as a [*DamageError] if it means damage, which is also
// a file that is missing or shorter than it was.
func MarkDamage(disk vfs.FS, dir string, err error) error {
	if err == nil || errors.As(err, new(*DamageError)) {
		return err
	}
	text := err.Error()
	index := strings.Contains(text, "not pristine") // a marker is missing
	switch {
	case IsDamage(err), errors.As(err, new(pebble.ErrMissingWALRecoveryDir)):
	case index, errors.Is(err, fs.ErrNotExist), strings.Contains(text, "object size mismatch"):
		names, e := disk.List(dir)
		if e != nil || !slices.ContainsFunc(names, ofStore) {
			return err // without any file, the volume may be away
		}
	default:
		return err
	}
	return &DamageError{err, index}
}

func ofStore(name string) bool {
	_, kind := FileKind(name)
	return kind != "" || strings.HasPrefix(name, "marker.")
}
