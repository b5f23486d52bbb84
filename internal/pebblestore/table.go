package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckTable reads all blocks of a table and compares their checksums, without decoding their content. The error is a [*DamageError] if
// the bytes differ from the written bytes. Other errors may be temporary.
func CheckTable(disk vfs.FS, path string) (err error) {
	// The reader trusts bytes whose checksum is right, and may panic on the decoded content.
	defer func() {
		if r := recover(); r != nil {
			err = Damaged("table %s: %v", path, r)
		}
	}()
	f, err := disk.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return markTable(path, errors.Join(err, readable.Close()))
	}
	return markTable(path, errors.Join(r.ValidateBlockChecksums(), r.Close()))
}

func markTable(path string, err error) error {
	if err != nil && IsDamage(err) {
		return &DamageError{fmt.Errorf("table %s: %w", path, err), false}
	}
	return err
}
