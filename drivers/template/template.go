// Package template is the smallest correct [driver.Target], to be copied by authors of drivers. The page docs/internals/drivers.md goes through it.
//
// A table is a folder. The rows of an imported file are one file in it. That gets its name, the id, when it is complete. So rows and id become
// visible in one step, and the file system refuses a second file with the id. A line is a row, a cell is in base64, and NULL is "-".
package template

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Target stores tables in a folder. It is safe for concurrent use, even by several processes.
type Target struct{ dir string }

var _ driver.Target = Target{}

// New returns a target in a folder, which is created when it is needed.
func New(dir string) Target { return Target{dir} }

// folder is where a table is. An id may be any text, so it is hashed, while a database would quote it.
func (t Target) folder(table string) string {
	sum := sha256.Sum256([]byte(table))
	return filepath.Join(t.dir, hex.EncodeToString(sum[:]))
}

// Ensure implements [driver.Target].
func (t Target) Ensure(ctx context.Context, table driver.Table) error {
	if table.Extend {
		return driver.Permanent(errors.New("tables of this target cannot grow")) // an Extender can
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// If two callers create the table, the second one finds the columns of the first.
	path := filepath.Join(t.folder(table.ID), "columns.json")
	if err := publish(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(table.Columns) }); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var have []datatype.Column
	if err := json.Unmarshal(data, &have); err != nil {
		return err
	}
	_, err = table.Fit(have) // a *driver.SchemaError if they differ
	return err
}

// Import implements [driver.Target], exactly once.
func (t Target) Import(ctx context.Context, f *driver.File) error {
	if err := t.Ensure(ctx, f.Table); err != nil {
		return err
	}
	return publish(filepath.Join(t.folder(f.Table.ID), f.ID+".rows"), func(w io.Writer) error {
		rows := f.ReadRows(ctx) // checks the rows, and ends with ctx
		defer rows.Close()
		var line []byte
		for rows.Next() {
			line = line[:0]
			for i, cell := range rows.Cells() {
				if i > 0 {
					line = append(line, '\t')
				}
				if cell == nil {
					line = append(line, '-') // NULL, apart from the empty text
				} else {
					line = base64.StdEncoding.AppendEncode(line, cell)
				}
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// publish writes a file that is there whole or not at all, and durable when it returns nil. A file that is there already stays.
func publish(path string, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".temp-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	w := bufio.NewWriter(temp)
	if err := errors.Join(write(w), w.Flush(), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The name must survive a power cut too, even if an earlier attempt gave it and was killed before this line.
	return errors.Join(syncFolder(dir), syncFolder(filepath.Dir(dir)), syncFolder(filepath.Dir(filepath.Dir(dir))))
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
