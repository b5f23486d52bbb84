// Package sqlfile is for drivers of SQL databases in one local file. It checks that the file is still the file that was opened, and writes
// the statements that create or extend a table.
package sqlfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// File is the file of an open database.
type File struct {
	path string
	info os.FileInfo
}

// creating is global to the process, like POSIX locks.
var creating = sync.OnceValue(func() *sync.Mutex { return new(sync.Mutex) })

// Create creates a file that does not exist. It is empty, and only this user may read it. Drivers call Create before they open the file, because
// closing a file gives up all POSIX locks that the process holds on it.
func Create(path string) error {
	creating().Lock()
	defer creating().Unlock()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// Find returns the file at a path.
func Find(path string) (File, error) {
	info, err := os.Stat(path)
	return File{path, info}, err
}

// At reports whether a path leads to the file.
func (f File) At(path string) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, f.info)
}

// Check fails if the file was deleted, moved or replaced. The database would continue to write to the file that it has open, and the
// rows would be lost with this file. The error is marked by [driver.Permanent]. The zero File, of a database that is being opened, passes.
func (f File) Check() error {
	if f.info == nil {
		return nil
	}
	if f.At(f.path) {
		return nil
	}
	_, err := os.Stat(f.path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = driver.Permanent(fmt.Errorf("%s was deleted, moved or replaced since it was opened: put it back, or start the program again", f.path))
	}
	return err
}

// Quote returns a name as an identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Changes returns the statements that give a table the columns want, which [driver.Table.Fit] has returned for the columns have, none if
// the table is absent. storageOf names the type of a column, and options end the statement of a new table.
func Changes(table string, have, want []datatype.Column, storageOf func(datatype.Type) string, options string) (statements []string) {
	define := func(c datatype.Column) string {
		def := Quote(c.Name) + " " + storageOf(c.Type)
		if c.Required {
			def += " NOT NULL"
		}
		return def
	}
	if len(have) == 0 {
		defs := make([]string, len(want))
		for i, c := range want {
			defs[i] = define(c)
		}
		return []string{"CREATE TABLE " + Quote(table) + " (" + strings.Join(defs, ", ") + ")" + options}
	}
	for i, c := range want {
		switch {
		case i >= len(have):
			statements = append(statements, "ALTER TABLE "+Quote(table)+" ADD COLUMN "+define(c))
		case have[i].Required && !c.Required:
			statements = append(statements, "ALTER TABLE "+Quote(table)+" ALTER COLUMN "+Quote(c.Name)+" DROP NOT NULL")
		}
	}
	return statements
}

// Literal returns a text as SQL.
func Literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
