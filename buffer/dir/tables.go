package dir

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
)

// TablesOptions are options of [TablesWith]. All processes that write to one folder must use the same.
type TablesOptions struct {
	// Gzip stores parts as .csv.gz: gzip slices are copied, others are compressed at the fastest level. Default: plain .csv.
	// One table can have parts of both kinds, so the option may change between two runs.
	Gzip bool
	// NoHeader creates tables whose parts have no line with the column names, as all tables of earlier releases. Such a table
	// cannot grow. An existing table keeps its form.
	NoHeader bool
	// PartitionBy names a column of type date or timestamp. A new table that has it keeps the rows of each day (UTC) in a
	// folder dt=2026-11-22, and rows whose value is NULL in dt=__HIVE_DEFAULT_PARTITION__. Other tables, and tables that
	// exist, are not split. Needs POSIX.
	PartitionBy string
	// MergeTo, if not 0, is the size in stored bytes up to which small parts are merged. Needs POSIX, and up to twice the
	// space for an hour. Do not combine it with readers that delete parts: a part that is deleted while the table switches to its
	// next version comes back.
	MergeTo int64
	// KeepFor, if not 0, is the age at which parts are removed: in a partitioned table the time since the end of their day,
	// in others since their import. Rows of a day that has passed its time are removed soon after their import.
	KeepFor time.Duration
	// OnImported, if not nil, is called after the rows of a file are durable and visible, with the paths of their parts. The
	// import counts as failed, and is repeated, until OnImported returns nil. It is called at least once a file: a crash
	// after it repeats the call, and a part that it had deleted is imported again first. Whoever loads parts elsewhere must
	// therefore record f.ID with the rows, in one transaction.
	OnImported func(ctx context.Context, f *buffer.File, parts []string) error
}

// TableDir is a [buffer.Target] that keeps each table in a directory. It imports each file exactly once. It is safe for
// concurrent use.
type TableDir struct {
	store
	opts  TablesOptions
	grace time.Duration // versionGrace

	// creating is held while a table is created, so that one of two definitions with different columns fails.
	creating sync.Mutex
}

var (
	_ buffer.Target      = (*TableDir)(nil)
	_ buffer.Extender    = (*TableDir)(nil)
	_ buffer.Counter     = (*TableDir)(nil)
	_ buffer.Taker       = (*TableDir)(nil)
	_ buffer.Uncreator   = (*TableDir)(nil)
	_ buffer.Compactor   = (*TableDir)(nil)
	_ buffer.LocalDriver = (*TableDir)(nil)
)

// Tables returns a target in the directory path, with the default options. The first Ensure or Import creates the directory.
func Tables(path string) *TableDir { return TablesWith(path, TablesOptions{}) }

// TablesWith is [Tables] with options.
func TablesWith(path string, o TablesOptions) *TableDir {
	return &TableDir{store: newStore(path), opts: o, grace: versionGrace}
}

// Path returns the directory of a table, whether it exists or not. A part is complete when it has its name, and never
// changes. If parts are merged or split by day, the directory is a link: resolve it once, for example with
// [filepath.EvalSymlinks], and read what it gives within the hour.
func (t *TableDir) Path(table string) string { return filepath.Join(t.root, folder(table)) }

// versioned reports whether new tables are links to versions.
func (t *TableDir) versioned(d definition) bool { return t.opts.MergeTo > 0 || d.Partition != "" }

// Ensure implements [buffer.Target].
func (t *TableDir) Ensure(ctx context.Context, table buffer.Table) error {
	if err := checkTable(table); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := t.ensure(ctx, table); err != nil {
		return fmt.Errorf("table directory: ensure %q: %w", table.ID, err)
	}
	return nil
}

// Extend implements [buffer.Extender]. New columns are in table.json and in the header of new parts, so readers match the columns
// of parts by name.
func (t *TableDir) Extend(ctx context.Context, table buffer.Table) error {
	table.Extend = true
	return t.Ensure(ctx, table)
}

// Needs implements [buffer.LocalDriver].
func (t *TableDir) Needs(stored, raw int64) (folder string, bytes int64) {
	if raw == 0 {
		return t.root, t.opts.MergeTo // before Compact
	}
	if t.opts.Gzip { // slices of another encoding are compressed again, perhaps less
		return t.root, min(raw, 2*stored)
	}
	return t.root, raw
}

// extension ends the names of new parts.
func (t *TableDir) extension() string {
	if t.opts.Gzip {
		return gzipPart
	}
	return plainPart
}
