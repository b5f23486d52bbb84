package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/ctxio"
)

// Rows yields the rows of a table, part by part in the order of the file ids, which is the order of their creation. The
// caller owns each row. An error ends the sequence and comes with a nil row. A missing table is an error that matches
// [fs.ErrNotExist]. Parts imported during the call may be missing.
func (t *TableDir) Rows(table string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		columns, err := t.Columns(table)
		if err != nil {
			yield(nil, fmt.Errorf("table directory: read %q: %w", table, err))
			return
		}
		entries, err := t.fs.ReadDir(t.Path(table))
		if err != nil {
			yield(nil, fmt.Errorf("table directory: read %q: %w", table, err))
			return
		}
		for _, e := range entries {
			path := filepath.Join(t.Path(table), e.Name())
			if e.IsDir() || !strings.HasSuffix(path, plainPart) && !strings.HasSuffix(path, gzipPart) {
				continue // imports create no folders
			}
			more := true
			err := t.readPart(path, func(r io.Reader) error {
				rows := newRowReader(r)
				for more && rows.Next() {
					row := make([]string, 0, len(columns))
					for _, cell := range rows.Cells() {
						row = append(row, string(cell))
					}
					more = yield(row, nil)
				}
				return rows.Err()
			})
			if !more {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("table directory: read %s: %w", path, err))
				return
			}
		}
	}
}

// CountFile implements [buffer.Counter]. It counts the rows in the part and trusts no stored number.
func (t *TableDir) CountFile(ctx context.Context, table buffer.Table, fileID string) (int64, error) {
	if err := checkID("file", fileID); err != nil {
		return 0, err
	}
	path, err := t.findPart(table.ID, fileID)
	if path == "" && err == nil {
		return 0, nil
	}
	var rows int64
	if err == nil {
		rows, err = t.countRows(ctx, path)
	}
	if err != nil {
		return 0, fmt.Errorf("table directory: count %s in %q: %w", fileID, table.ID, err)
	}
	return rows, nil
}

// TakenAway implements [buffer.Taker]. A whole part that is missing from an existing table was taken away. The directory
// cannot tell by whom, so it does not detect parts that a broken disk loses.
func (t *TableDir) TakenAway(_ context.Context, table buffer.Table, fileID string) (bool, error) {
	if err := checkID("file", fileID); err != nil {
		return false, err
	}
	path, err := t.findPart(table.ID, fileID)
	if err == nil && path == "" {
		err = t.compare(table) // whether the table exists, with these columns
	}
	if err != nil {
		return false, fmt.Errorf("table directory: look for %s in %q: %w", fileID, table.ID, err)
	}
	return path == "", nil
}

// countRows returns the number of rows of a part. A part that is not made of rows is a [buffer.Permanent] error.
func (t *TableDir) countRows(ctx context.Context, path string) (int64, error) {
	var check rowChecker
	var malformed error
	err := t.readPart(path, func(r io.Reader) error {
		w := writerFunc(func(p []byte) (n int, err error) {
			n, malformed = check.Write(p)
			return n, malformed
		})
		if _, err := io.CopyBuffer(ctxio.Writer(ctx, w), struct{ io.Reader }{r}, make([]byte, 128<<10)); err != nil {
			return err
		}
		malformed = check.end()
		return malformed
	})
	if malformed != nil {
		return 0, buffer.Permanent(fmt.Errorf("%s is damaged: move it away or mend it: %w", path, malformed))
	}
	return check.rows, err
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// readPart calls read with the plain rows of a part.
func (t *TableDir) readPart(path string, read func(r io.Reader) error) error {
	rc, err := t.fs.Open(path)
	if err != nil {
		return err
	}
	encoding := buffer.None
	if strings.HasSuffix(path, gzipPart) {
		encoding = buffer.Gzip
	}
	rc, err = buffer.Decode(encoding, rc)
	if err != nil {
		return err
	}
	return errors.Join(read(rc), rc.Close())
}
