package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// EmptyFormat is a [Format] that can write a part without rows.
type EmptyFormat interface {
	Format
	// Empty writes a part that has the columns of the table and no rows.
	Empty(w io.Writer, d Definition) error
}

const (
	// emptyPrefix begins the names of parts without rows. No file has such an id. Engines that skip names with an underscore know the columns
	// from the other parts.
	emptyPrefix = "_columns-"
	// emptyDay is the folder of the part without rows in a partitioned table. Readers want a day of every part, and with one that is no date
	// the column of the day would be a text.
	emptyDay = DayPrefix + "1970-01-01"
)

// emptyPath is the path in its table of the part without rows. It has the number of columns, which only grows. That avoids a second rule about
// a crash between the definition and the part.
func (t *Tables) emptyPath(d Definition) string {
	name := fmt.Sprintf("%s%d%s", emptyPrefix, len(d.Columns), t.Format.Extensions()[0])
	if d.Partition != "" {
		return filepath.Join(emptyDay, name)
	}
	return name
}

// ensureEmpty gives a table its part without rows, as Options.EmptyPart says.
func (t *Tables) ensureEmpty(ctx context.Context, d Definition) error {
	format, ok := t.Format.(EmptyFormat)
	if !ok || !t.EmptyPart {
		return nil
	}
	missing := func() (string, error) {
		path := filepath.Join(t.Path(d.ID), t.emptyPath(d))
		_, err := t.FS.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		return "", err
	}
	if path, err := missing(); path == "" {
		return err
	}
	linked, err := t.IsLink(d.ID)
	if err != nil {
		return err
	}
	if linked || t.versioned(d) { // else a switch could omit the part
		unlock, err := t.lock(ctx, d.ID, false)
		if err != nil {
			return err
		}
		defer unlock.Close()
	}
	path, err := missing()
	if path == "" || err != nil {
		return err
	}
	if folder := filepath.Dir(path); folder != t.Path(d.ID) {
		if err := t.FS.MkdirAll(folder); err != nil {
			return err
		}
		if err := t.FS.SyncDir(filepath.Dir(folder)); err != nil {
			return err
		}
	}
	temp := fmt.Sprintf("columns_%d_%s", len(d.Columns), strings.TrimPrefix(definitionID(d.ID), "table_")) // others with it write the same
	return t.Write(ctx, path, temp, func(w io.Writer) error { return format.Empty(w, d) })
}

// isEmpty reports whether an entry of the folder of a table has no rows because it belongs to the part without rows, or is an empty folder for imports.
func (t *Tables) isEmpty(dir string, e fs.DirEntry) bool {
	if !e.IsDir() {
		return strings.HasPrefix(e.Name(), emptyPrefix)
	}
	if e.Name() == ImportsDir {
		imports, err := t.FS.ReadDir(filepath.Join(dir, ImportsDir))
		return err == nil && len(imports) == 0
	}
	if e.Name() != emptyDay {
		return false
	}
	files, err := t.FS.ReadDir(filepath.Join(dir, emptyDay))
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), emptyPrefix) {
			return false
		}
	}
	return err == nil
}
