package dir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

const (
	definitionFile = "table.json"
	// definitionVersion 2 has a header in each part unless NoHeader is set; version 1 never has one, and no types.
	definitionVersion = 2
)

// definition is the content of table.json.
type definition struct {
	Version int               `json:"version"`
	ID      string            `json:"id"`
	Columns []datatype.Column `json:"columns"`
	// NoHeader says that parts begin with their first row.
	NoHeader bool `json:"noHeader,omitempty"`
	// Partition is the column whose day tells the folder of a row.
	Partition string `json:"partition,omitempty"`
	// Creation is the mark of the call that created the table.
	Creation string `json:"creation,omitempty"`
}

// ensure creates a table, or compares an existing one, and returns its definition. A table with Extend gets the columns that it
// lacks.
func (t *TableDir) ensure(ctx context.Context, table buffer.Table) (d definition, err error) {
	if err := t.ensureDir(t.root); err != nil {
		return d, err
	}
	d, fits, err := t.compare(table)
	if err == nil {
		if err := t.ensureDir(t.Path(table.ID)); err != nil { // its entry is durable
			return d, err
		}
	}
	t.sweep()
	if fits || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	t.creating.Lock()
	defer t.creating.Unlock()
	if err == nil || t.opts.MergeTo > 0 || t.opts.PartitionBy != "" { // a plain table is created without files for locks
		unlock, err := t.lock(ctx, table.ID, true)
		if err == nil {
			defer unlock.Close()
		} else if !errors.Is(err, errors.ErrUnsupported) {
			return d, err
		}
	}
	d, fits, err = t.compare(table)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.create(ctx, table)
	case err != nil || fits:
		return d, err
	}
	if d.Columns, err = table.Fit(d.Columns); err != nil {
		return d, err
	}
	return d, t.write(ctx, filepath.Join(t.Path(table.ID), definitionFile), definitionID(table.ID), d.writeTo)
}

// create creates a table. The caller holds the lock alone.
func (t *TableDir) create(ctx context.Context, table buffer.Table) (d definition, err error) {
	d = definition{Version: definitionVersion, ID: table.ID, NoHeader: t.opts.NoHeader, Creation: table.Creation}
	if d.Columns, err = table.Fit(nil); err != nil {
		return d, err
	}
	if d.Partition, err = partitionOf(table, t.opts.PartitionBy); err != nil {
		return d, err
	}
	if t.versioned(d) {
		temp, err := t.stage(ctx, definitionID(d.ID), d.writeTo)
		if err != nil {
			return d, err
		}
		return d, t.switchVersion(d.ID, change{add: map[string]string{definitionFile: temp}})
	}
	if err := t.ensureDir(t.Path(table.ID)); err != nil {
		return d, err
	}
	return d, t.write(ctx, filepath.Join(t.Path(table.ID), definitionFile), definitionID(table.ID), d.writeTo)
}

func (d definition) writeTo(w io.Writer) error {
	data, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	return err
}

// compare returns the definition of a table, and whether it has all columns that are wanted. A table that cannot have them is
// an error, and a missing one is fs.ErrNotExist.
func (t *TableDir) compare(table buffer.Table) (d definition, fits bool, err error) {
	if d, err = t.definition(table.ID); err != nil {
		return d, false, err
	}
	fixed := table.Extend && d.NoHeader // a part without a header has all columns, in their order
	table.Extend = table.Extend && !fixed
	want, err := table.Fit(d.Columns)
	if err != nil && fixed {
		err = fmt.Errorf("%w; Extend does not help, because the parts of this table have no header line", err)
	}
	if err == nil && d.Partition != "" {
		err = checkDayColumn(table)
	}
	return d, err == nil && slices.Equal(want, d.Columns), err
}

// namesFor returns the names of the columns of a file as the table has them.
func (d definition) namesFor(table buffer.Table) []string {
	names := table.Names()
	if table.Extend {
		for i, at := range table.Places(d.Columns) {
			if at >= 0 {
				names[at] = d.Columns[i].Name
			}
		}
	}
	return names
}

// Columns returns the columns of a table. A missing table is an error that matches [fs.ErrNotExist].
func (t *TableDir) Columns(table string) ([]datatype.Column, error) {
	d, err := t.definition(table)
	return d.Columns, err
}

// definition reads table.json. A missing table is fs.ErrNotExist.
func (t *TableDir) definition(table string) (d definition, err error) {
	return t.definitionAt(t.Path(table), table)
}

func (t *TableDir) definitionAt(dir, table string) (d definition, err error) {
	path := filepath.Join(dir, definitionFile)
	rc, err := t.fs.Open(path)
	if err != nil {
		return d, err
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		if info, e := t.fs.Stat(path); e == nil && !info.Mode().IsRegular() {
			err = buffer.Permanent(fmt.Errorf("%s is no regular file (%s): move it away", path, info.Mode()))
		}
		return d, err
	}
	// The version is read first, because a newer format may not fit the type.
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return d, buffer.Permanent(fmt.Errorf("%s is damaged, restore it or delete the table: %w", path, err))
	}
	if v.Version < 1 || definitionVersion < v.Version {
		return d, buffer.Permanent(fmt.Errorf("%s has version %d, this release knows versions 1 to %d", path, v.Version, definitionVersion))
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, buffer.Permanent(fmt.Errorf("%s is damaged, restore it or delete the table: %w", path, err))
	}
	if d.ID != table {
		return d, buffer.Permanent(fmt.Errorf("%s belongs to table %q, whose id shares a folder with %q: rename one of them", path, d.ID, table))
	}
	d.NoHeader = d.NoHeader || d.Version == 1
	return d, nil
}
