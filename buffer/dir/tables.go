package dir

import (
	"context"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
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
	// folder dt=2026-11-22, and rows whose value is NULL in dt=__HIVE_DEFAULT_PARTITION__. Files of several days have such folders in a
	// folder of their own. Other tables, and tables that exist, are not split. Needs POSIX.
	PartitionBy string
	// MergeTo, if not 0, is the size in stored bytes up to which small parts are merged. Needs POSIX, and up to twice the
	// space for an hour. Do not combine it with readers that delete parts: a part that is deleted while the table switches to its
	// next version comes back.
	MergeTo int64
	// KeepFor, if not 0, is the age at which parts are removed: in a partitioned table the time since the end of their day,
	// in others since their import. Rows of a day that has passed its time are removed within an hour after their import. It applies to the
	// tables of defined sinks; once the sink of a table is gone, its parts stay until [TableDir.Compact] is called or they are deleted.
	KeepFor time.Duration
	// OnImported, if not nil, is called after the rows of a file are durable and visible, with the paths of their parts. The
	// import counts as failed, and is repeated, until OnImported returns nil. It is called at least once a file: a crash
	// after it repeats the call, and a part that it had deleted is imported again first. Whoever loads parts elsewhere must
	// therefore record f.ID with the rows, in one transaction.
	OnImported func(ctx context.Context, f *driver.File, parts []string) error
}

// TableDir is a [driver.Target] that keeps each table in a directory. It imports each file exactly once. It is safe for
// concurrent use.
type TableDir struct {
	folder *parts.Tables
	csv    csvFormat
}

var (
	_ driver.Target      = (*TableDir)(nil)
	_ driver.Extender    = (*TableDir)(nil)
	_ driver.Counter     = (*TableDir)(nil)
	_ driver.Taker       = (*TableDir)(nil)
	_ driver.Uncreator   = (*TableDir)(nil)
	_ driver.Compactor   = (*TableDir)(nil)
	_ driver.LocalDriver = (*TableDir)(nil)
	_ driver.Exclusive   = (*TableDir)(nil)
	_ driver.Querier     = (*TableDir)(nil)
	_ driver.Tailer      = (*TableDir)(nil)
)

// Tables returns a target in the directory path, with the default options. The first Ensure or Import creates the directory.
func Tables(path string) *TableDir { return TablesWith(path, TablesOptions{}) }

// TablesWith is [Tables] with options.
func TablesWith(path string, o TablesOptions) *TableDir {
	format := csvFormat{gzip: o.Gzip}
	return &TableDir{csv: format, folder: parts.NewTables(path, format, parts.Options{
		Driver: "table directory", NoHeader: o.NoHeader, PartitionBy: o.PartitionBy, MergeTo: o.MergeTo, KeepFor: o.KeepFor,
		OnImported: o.OnImported,
	})}
}

// Path returns the directory of a table, whether it exists or not. A part is complete when it has its name, and never
// changes. If parts are merged or split by day, the directory is a link: resolve it once, for example with
// [filepath.EvalSymlinks], and read what it gives within the hour.
func (t *TableDir) Path(table string) string { return t.folder.Path(table) }

// Columns returns the columns of a table. A missing table is an error that matches [fs.ErrNotExist].
func (t *TableDir) Columns(table string) ([]datatype.Column, error) { return t.folder.Columns(table) }

// Ensure implements [driver.Target].
func (t *TableDir) Ensure(ctx context.Context, table driver.Table) error {
	return t.folder.Ensure(ctx, table)
}

// Extend implements [driver.Extender]. New columns are in table.json and in the header of new parts, so readers match the columns
// of parts by name.
func (t *TableDir) Extend(ctx context.Context, table driver.Table) error {
	return t.folder.Extend(ctx, table)
}

// Import implements [driver.Target], exactly once. It checks the form and the number of the rows, so a slice that was cut
// off in staging is found before its rows count as imported. An existing part with another number of rows than f is a
// [driver.Permanent] error: the id was used for something else, or the part was changed. If the table is split by day, rows whose day
// is neither a date nor a timestamp are refused with a [*driver.RowsError].
func (t *TableDir) Import(ctx context.Context, f *driver.File) error { return t.folder.Import(ctx, f) }

// CountFile implements [driver.Counter]. It counts the rows in the parts and trusts no stored number.
func (t *TableDir) CountFile(ctx context.Context, table driver.Table, fileID string) (int64, error) {
	return t.folder.CountFile(ctx, table, fileID)
}

// TakenAway implements [driver.Taker]. A whole part that is missing from an existing table was taken away, by a reader or by
// TablesOptions.KeepFor. The directory cannot tell by whom, so it does not detect parts that a broken disk loses.
func (t *TableDir) TakenAway(ctx context.Context, table driver.Table, fileID string) (bool, error) {
	return t.folder.TakenAway(ctx, table, fileID)
}

// Compact implements [driver.Compactor]: it merges small parts and removes old ones, as the options say. It is safe beside
// imports and readers, and after a crash at any point: what it leaves half done is not visible and is removed later. While
// another process compacts the table it does nothing. The first call of a process, and one call an hour, does all that there is to do. The others
// wait until a quarter of the parts of the table can be merged or removed.
func (t *TableDir) Compact(ctx context.Context, table driver.Table) error {
	return t.folder.Compact(ctx, table)
}

// Drop deletes a table with all its rows. A missing table is no error. A later or concurrent import creates it again.
func (t *TableDir) Drop(ctx context.Context, table string) error { return t.folder.Drop(ctx, table) }

// Uncreate implements [driver.Uncreator].
func (t *TableDir) Uncreate(ctx context.Context, table, creation string) error {
	return t.folder.Uncreate(ctx, table, creation)
}

// Alone implements [driver.Exclusive]: of several processes only one may create a table that is neither split by day nor merged. Everything
// else they do beside each other.
func (t *TableDir) Alone(table string) string { return t.folder.Alone(table) }

// Needs implements [driver.LocalDriver].
func (t *TableDir) Needs(stored, raw int64) (folder string, bytes int64) {
	if raw == 0 {
		return t.folder.Root, t.folder.MergeTo // before Compact
	}
	if t.csv.gzip { // slices of another encoding are compressed again, perhaps less
		return t.folder.Root, min(raw, 2*stored)
	}
	return t.folder.Root, raw
}
