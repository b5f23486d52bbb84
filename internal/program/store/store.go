// Package store has the drivers of a program's engine, and a reader of its tables.
package store

import (
	"context"
	"iter"
	"path/filepath"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Store has the drivers of an engine.
type Store struct {
	// Target has the tables.
	Target driver.Target
	// Targets are additional targets by name.
	Targets map[string]driver.Target
	// Drops are functions as Drop for the tables in Targets, by name. A target that is missing here cannot.
	Drops map[string]func(ctx context.Context, table string) error
	// Staging holds slices. Nil is the default of an engine, a folder of its data directory.
	Staging driver.Staging
	// Tables reads what Target has stored.
	Tables Reader
	// Hint is a command that shows the tables, for a program to print. If it is empty, the tables are folders of CSV files in
	// the folder tables of the data directory.
	Hint string
	// Drop deletes a table with its rows. Nil means that the target cannot.
	Drop func(ctx context.Context, table string) error
	// Closer ends the drivers, after their engine. Nil does nothing.
	Closer func() error
}

// Reader reads tables back. NULL is the empty text.
type Reader interface {
	// Columns returns the columns of a table. Their types may be missing.
	Columns(table string) ([]datatype.Column, error)
	// Rows returns the rows of a table in any order. It ends at the first error.
	Rows(table string) iter.Seq2[[]string, error]
}

// Open opens the store of an engine in a data directory. The caller closes it after the engine.
type Open func(dir string) (*Store, error)

// Folders opens the default of an engine, folders of CSV files in the data directory.
func Folders(folder string) (*Store, error) {
	tables := dir.Tables(filepath.Join(folder, "tables"))
	return &Store{Target: tables, Tables: tables, Drop: tables.Drop}, nil
}

// Close ends the drivers.
func (s *Store) Close() error {
	if s.Closer == nil {
		return nil
	}
	return s.Closer()
}
