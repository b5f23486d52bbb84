package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

const (
	// DefinitionFile is the name of the file in a table that has its [Definition].
	DefinitionFile = "table.json"
	// Version 1 has no types, and parts without a header. Version 2 has a header in each part unless NoHeader is set. Version 3 has a
	// format, so that earlier releases do not mistake it for CSV. Version 4 can have [ImportsDir], in which earlier releases would not find
	// imported files.
	oldestVersion, plainVersion, formatVersion, importsVersion = 1, 2, 3, 4
)

// Definition is the content of table.json.
type Definition struct {
	// Version is the version of this file.
	Version int `json:"version"`
	// ID is the id of the table.
	ID string `json:"id"`
	// Columns are the columns that parts can have.
	Columns []datatype.Column `json:"columns"`
	// Format is the name of the format of the parts, "" for CSV.
	Format string `json:"format,omitempty"`
	// NoHeader says that parts begin with their first row.
	NoHeader bool `json:"noHeader,omitempty"`
	// Partition is the column whose day tells the folder of a row.
	Partition string `json:"partition,omitempty"`
	// Creation is the mark of the call that created the table.
	Creation string `json:"creation,omitempty"`
}

// ensure creates a table, or compares an existing one, and returns its definition. A table with Extend gets the columns that it
// lacks.
func (t *Tables) ensure(ctx context.Context, table driver.Table) (d Definition, err error) {
	if d, err = t.ensureDefinition(ctx, table); err == nil {
		err = t.ensureEmpty(ctx, d)
	}
	return d, err
}

func (t *Tables) ensureDefinition(ctx context.Context, table driver.Table) (d Definition, err error) {
	if err := t.EnsureDir(t.Root); err != nil {
		return d, err
	}
	d, fits, err := t.compare(table)
	if err == nil {
		if err := t.EnsureDir(t.Path(table.ID)); err != nil { // its entry is durable
			return d, err
		}
	}
	t.Sweep()
	if fits || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	t.creating.Lock()
	defer t.creating.Unlock()
	if err != nil && !t.locksCreation() {
		unlock, err := t.lockCreation(ctx)
		if err != nil {
			return d, err
		}
		defer unlock.Close()
		if d, fits, err = t.compare(table); errors.Is(err, fs.ErrNotExist) {
			return t.create(ctx, table)
		} else if err != nil || fits {
			return d, err
		}
	}
	unlock, err := t.lock(ctx, table.ID, true)
	if err == nil {
		defer unlock.Close()
	} else if !errors.Is(err, errors.ErrUnsupported) {
		return d, err
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
	return d, t.Write(ctx, filepath.Join(t.Path(table.ID), DefinitionFile), definitionID(table.ID), d.writeTo)
}

// locksCreation reports whether the creation of a table takes the lock of the table. A plain table is created without files for locks, under
// [Tables.lockCreation].
func (t *Tables) locksCreation() bool { return t.MergeTo > 0 || t.PartitionBy != "" }

// lockCreation keeps other targets from creating plain tables in the folder, whatever the path of the folder is spelled like, because the lock
// belongs to the folder of temporary files. A file system of a network may refuse to lock folders. Then [Tables.Alone] is the only lock.
func (t *Tables) lockCreation(ctx context.Context) (unlock io.Closer, err error) {
	temp := filepath.Join(t.Root, TempDir)
	if err := t.EnsureDir(temp); err != nil {
		return nil, err
	}
	unlock, err = t.waitLock(ctx, temp, true)
	for _, refusal := range []error{errors.ErrUnsupported, syscall.EBADF, syscall.ENOLCK, syscall.EINVAL} {
		if errors.Is(err, refusal) {
			return io.NopCloser(nil), nil
		}
	}
	return unlock, err
}

// create creates a table. The caller holds the lock alone.
func (t *Tables) create(ctx context.Context, table driver.Table) (d Definition, err error) {
	d = Definition{Version: t.version(), ID: table.ID, Format: t.Format.Name(), NoHeader: t.NoHeader, Creation: table.Creation}
	if d.Columns, err = table.Fit(nil); err != nil {
		return d, err
	}
	if d.Partition, err = partitionOf(table, t.PartitionBy); err != nil {
		return d, err
	}
	if d.Partition != "" {
		d.Version = importsVersion
	}
	if !t.versioned(d) && d.isPlain() {
		d.Version = oldestVersion
	}
	if t.versioned(d) {
		temp, err := t.StageFile(ctx, definitionID(d.ID), d.writeTo)
		if err != nil {
			return d, err
		}
		return d, t.switchVersion(d.ID, change{add: map[string]string{DefinitionFile: temp}})
	}
	if err := t.EnsureDir(t.Path(table.ID)); err != nil {
		return d, err
	}
	return d, t.Write(ctx, filepath.Join(t.Path(table.ID), DefinitionFile), definitionID(table.ID), d.writeTo)
}

// allowImports makes a partitioned table of an earlier release one that can have [ImportsDir].
func (t *Tables) allowImports(ctx context.Context, table string) error {
	unlock, err := t.lock(ctx, table, true)
	if err != nil {
		return err
	}
	defer unlock.Close()
	d, err := t.definition(table)
	if err != nil || d.Version >= importsVersion {
		return err
	}
	d.Version = importsVersion
	return t.Write(ctx, filepath.Join(t.Path(table), DefinitionFile), definitionID(table), d.writeTo)
}

// isPlain reports whether version 1 has everything that the table has. Such a table is written with it, so that a program can go
// back to a release that knows no other.
func (d Definition) isPlain() bool {
	return d.Format == "" && d.NoHeader && d.Partition == "" &&
		!slices.ContainsFunc(d.Columns, func(c datatype.Column) bool { return c.Type != datatype.Untyped })
}

func (d Definition) writeTo(w io.Writer) error {
	d.NoHeader = d.NoHeader && d.Version > oldestVersion
	data, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	return err
}

// compare returns the definition of a table, and whether it has all columns that are wanted. A table that cannot have them is
// an error, and a missing one is fs.ErrNotExist.
func (t *Tables) compare(table driver.Table) (d Definition, fits bool, err error) {
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

// NamesFor returns the names of the columns of a file as the table has them.
func (d Definition) NamesFor(table driver.Table) []string {
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
func (t *Tables) Columns(table string) ([]datatype.Column, error) {
	d, err := t.definition(table)
	return d.Columns, err
}

// version is the version of new tables that are not split by day.
func (t *Tables) version() int {
	if t.Format.Name() == "" {
		return plainVersion
	}
	return formatVersion
}

// definition reads table.json. A missing table is fs.ErrNotExist.
func (t *Tables) definition(table string) (d Definition, err error) {
	return t.definitionAt(t.Path(table), table)
}

func (t *Tables) definitionAt(dir, table string) (d Definition, err error) {
	path := filepath.Join(dir, DefinitionFile)
	rc, err := t.FS.Open(path)
	if err != nil {
		return d, err
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		if info, e := t.FS.Stat(path); e == nil && !info.Mode().IsRegular() {
			err = driver.Permanent(fmt.Errorf("%s is no regular file (%s): move it away", path, info.Mode()))
		}
		return d, err
	}
	// The version is read first, because a newer format may not fit the type.
	var v struct {
		Version int    `json:"version"`
		Format  string `json:"format"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return d, driver.Permanent(fmt.Errorf("%s is damaged: %w; restore it or delete the table", path, err))
	}
	if v.Format != t.Format.Name() {
		return d, driver.Permanent(fmt.Errorf("%s is of a table with another kind of parts: keep the tables of two drivers in two folders", path))
	}
	if v.Version < oldestVersion || importsVersion < v.Version {
		return d, driver.Permanent(fmt.Errorf("%s has version %d, this release knows versions 1 to %d", path, v.Version, importsVersion))
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, driver.Permanent(fmt.Errorf("%s is damaged: %w; restore it or delete the table", path, err))
	}
	if d.ID != table {
		return d, driver.Permanent(fmt.Errorf("%s belongs to table %q, whose id shares a folder with %q: rename one of them", path, d.ID, table))
	}
	d.NoHeader = d.NoHeader || d.Version == oldestVersion
	return d, nil
}
