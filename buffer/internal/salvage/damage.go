package salvage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// storeDamage says that the store can never be opened as it is. With index set only what leads to the rows is damaged, so
// nothing need be lost.
type storeDamage struct {
	error
	index bool
}

func (e *storeDamage) Unwrap() error { return e.error }

// BadRecord returns an error that [IsDamage] knows: a record of the store does not say what it must.
func BadRecord(text string, args ...any) error { return &storeDamage{fmt.Errorf(text, args...), false} }

// badIndex is BadRecord for what leads to the rows.
func badIndex(text string, args ...any) error { return &storeDamage{fmt.Errorf(text, args...), true} }

// IsDamage reports whether an error means that the store, or a part of it, can never be read as it is. Errors of the disk
// itself may pass and are no damage.
func IsDamage(err error) bool {
	return pebble.IsCorruptionError(err) || errors.As(err, new(*storeDamage)) || errors.Is(err, format.ErrReceipt) ||
		errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrZeroedChunk) || errors.Is(err, record.ErrUnexpectedEOF)
}

// OpenError returns the error of opening an existing store so that [IsDamage] knows it when it means damage: a file of the
// store is missing, or is shorter than it was.
func OpenError(disk vfs.FS, dir string, err error) error {
	if bad := new(pebblestore.Damage); errors.As(err, &bad) {
		return &storeDamage{bad.Err, bad.List}
	}
	text := err.Error()
	index := errors.Is(err, pebble.ErrDBNotPristine) || strings.Contains(text, "not pristine") // a marker is missing
	if !index && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(text, "object size mismatch") {
		return err
	}
	names, e := disk.List(dir)
	if e != nil || !slices.ContainsFunc(names, func(name string) bool { _, kind := pebblestore.FileKind(name); return kind != "" }) {
		return err // the folder itself is not what it was
	}
	return &storeDamage{err, index}
}

// Log logs damage that was set aside.
func Log(log *slog.Logger, d format.Damage) {
	log.Error("stored rows are damaged and set aside", "sink", d.SinkID, "file", d.FileID, "slice", d.SliceID,
		"first_chunk", d.FirstChunk, "last_chunk", d.LastChunk, "rows", d.Rows, "uncounted", d.Uncounted, "reason", d.Reason)
}
