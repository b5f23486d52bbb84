package parts

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
)

// Options are options of [Tables]. All processes that write to one folder must use the same.
type Options struct {
	// Driver begins the errors.
	Driver string
	// NoHeader is stored in new tables, see [Definition].
	NoHeader bool
	// PartitionBy names a column of type date or timestamp, by whose day new tables are split.
	PartitionBy string
	// MergeTo, if not 0, is the size in bytes up to which small parts are merged.
	MergeTo int64
	// KeepFor, if not 0, is the age at which parts are removed.
	KeepFor time.Duration
	// EmptyPart, if the format is an [EmptyFormat], keeps a part without rows in each table.
	EmptyPart bool
	// OnImported, if not nil, is called after the rows of a file are durable and visible, with the paths of their parts.
	OnImported func(ctx context.Context, f *driver.File, parts []string) error
}

// Format writes and reads the parts. Its methods are safe for concurrent use.
type Format interface {
	// Name is stored in each table, which only a format of this name then uses.
	Name() string
	// Extensions end the names of parts, each before one that it ends with. New parts have any of them.
	Extensions() []string
	// Stage writes the rows of f to temporary files, at most one a folder of the table, and returns them by their path in the table, see
	// [Definition.PartPath]. It fails when f has other rows than it says. On an error it removes the files it has written.
	Stage(ctx context.Context, s *Store, d Definition, f *driver.File) (map[string]string, error)
	// Count reads the rows of a section and returns their number. Anything but rows is a [driver.Permanent] error.
	Count(ctx context.Context, s *Store, d Definition, section Section) (int64, error)
	// Merge writes the rows of sources, all of one folder and extension, in this order to a temporary file. It may leave out sources.
	// If only one is left, it writes none and returns nothing.
	Merge(ctx context.Context, s *Store, d Definition, dir string, sources []Part) (Merged, error)
}

// Merged is the outcome of [Format.Merge].
type Merged struct {
	// Temp is the file, "" if there is none.
	Temp string
	// Taken are the sources whose rows it has.
	Taken []Part
	// Files are the imported files, in the order of their rows.
	Files []Content
}

// Tables has the methods of a [driver.Target] that keeps each table in a folder of parts. It imports each file exactly once. It is safe
// for concurrent use.
type Tables struct {
	Store
	Options
	// Format writes and reads the parts.
	Format Format
	// Grace is how long a version stays after it was replaced.
	Grace time.Duration

	// creating is held while a table is created, so that one of two definitions with different columns fails.
	creating sync.Mutex

	knownMu sync.Mutex // guards known, and is not held during I/O
	known   map[string]*known
}

// NewTables returns tables in the folder path. The first Ensure or Import creates it.
func NewTables(path string, format Format, o Options) *Tables {
	return &Tables{Store: NewStore(path), Options: o, Format: format, Grace: versionGrace}
}

// Path returns the folder of a table, whether it exists or not.
func (t *Tables) Path(table string) string { return filepath.Join(t.Root, folder(table)) }

// versioned reports whether new tables are links to versions.
func (t *Tables) versioned(d Definition) bool { return t.MergeTo > 0 || d.Partition != "" }

// Ensure implements [driver.Target].
func (t *Tables) Ensure(ctx context.Context, table driver.Table) error {
	if err := checkTable(table); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := t.ensure(ctx, table); err != nil {
		return fmt.Errorf("%s: ensure %q: %w", t.Driver, table.ID, err)
	}
	return nil
}

// Alone implements [driver.Exclusive]. It names a table that has to be created without files for locks. The name has the absolute path without
// symbolic links.
func (t *Tables) Alone(table string) string {
	if t.locksCreation() {
		return ""
	}
	path := filepath.Join(localdisk.Resolve(t.Root), folder(table))
	if _, err := t.FS.Stat(filepath.Join(path, DefinitionFile)); err == nil {
		return ""
	}
	return "create " + path
}

// Extend implements [driver.Extender].
func (t *Tables) Extend(ctx context.Context, table driver.Table) error {
	table.Extend = true
	return t.Ensure(ctx, table)
}
