package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/drivers/parquet"
)

// TablesOptions are options of [OpenTables]. The zero value is ready to use. All engines that write to one prefix must use the same.
type TablesOptions struct {
	// PartitionBy, RowGroup, Bloom and Compression are as in [parquet.Options].
	PartitionBy string
	RowGroup    int64
	Bloom       []string
	Compression parquet.Compression
	// Scratch is a folder on this machine for the files that are being imported. The default is the system's temporary folder. OpenTables
	// removes what killed processes have left there more than a day ago.
	Scratch string
	// PartSize is as in [Options].
	PartSize int64
}

// Validate returns an error if [OpenTables] refuses the options.
func (o TablesOptions) Validate() error {
	_, err := parquet.Tables("", parquet.Options{RowGroup: o.RowGroup, Compression: o.Compression})
	if err == nil {
		_, err = sizeOfParts(o.PartSize)
	}
	return err
}

// Tables is a [driver.Target] that keeps tables as Parquet objects in a bucket. It is safe for concurrent use, even by several processes.
//
//	PREFIX/
//	  in.c-web.events/
//	    dt=2026-11-22/
//	      0197c5a1-….1000.parquet     a part: the rows of one imported file and one day
//	    _forebay/
//	      000001.json                 the columns of the table; 000002.json when it has grown
//
// # Exactly once
//
// A part is put on the condition that its name is free, and the name has the id of the file. So one step makes rows and id visible, and the
// store refuses the put of a second attempt, even one that runs during the first. A file with rows of several days has a part for each. The parts are
// put one after the other, and the next attempt completes the parts of a killed process. Until then readers see some days of the file and
// not others. Without PartitionBy a file is there whole or not at all. An object that has the name of a part is compared with the rows of the file.
// If it has other rows, the error is a [driver.Permanent] one that names it.
//
// Deleting or replacing parts deletes their ids too. Do so only after Tuning.Retention, when no import of these files can
// be repeated.
//
// # Merging
//
// Parts are never merged in the bucket. A reader lists the objects and then reads them. If a merged part were written before the deletion of
// its sources, a reader would see rows twice. If it were written after the deletion, a reader would miss rows. A bucket has no
// link that could switch readers from one list to another. Make files large before they are imported, with conditions of 128 MB or some
// minutes for imports.
type Tables struct {
	objects *store
	options TablesOptions
}

var (
	_ driver.Target      = (*Tables)(nil)
	_ driver.Extender    = (*Tables)(nil)
	_ driver.Limiter     = (*Tables)(nil)
	_ driver.Counter     = (*Tables)(nil)
	_ driver.Uncreator   = (*Tables)(nil)
	_ driver.LocalDriver = (*Tables)(nil)
	_ driver.Querier     = (*Tables)(nil)
	_ driver.Tailer      = (*Tables)(nil)
)

// OpenTables returns a target in the bucket of a URL, see [Open].
func OpenTables(ctx context.Context, url string, o TablesOptions) (*Tables, error) {
	if o.Scratch == "" {
		o.Scratch = os.TempDir()
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	objects, err := openStore(ctx, url, o.PartSize)
	if err != nil {
		return nil, err
	}
	removeScratch(o.Scratch)
	return &Tables{objects, o}, nil
}

// Close ends idle connections. Calls must have returned.
func (t *Tables) Close() error { return t.objects.close() }

const (
	scratchPrefix = "forebay-parts-"
	// scratchAge is longer than any import takes.
	scratchAge = 24 * time.Hour
)

// removeScratch removes what killed processes have left.
func removeScratch(folder string) {
	old, _ := filepath.Glob(filepath.Join(folder, scratchPrefix+"*"))
	for _, path := range old {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > scratchAge {
			_ = os.RemoveAll(path) // it is tried again at the next opening
		}
	}
}

// scratch is a folder of Parquet on this machine, for one file.
type scratch struct {
	*parquet.Target
	folder string
	parts  []string // the paths of the imported file
}

func (t *Tables) scratch(partition string) (*scratch, error) {
	folder, err := os.MkdirTemp(t.options.Scratch, scratchPrefix)
	if err != nil {
		return nil, err
	}
	s := &scratch{folder: folder}
	s.Target, err = parquet.Tables(folder, parquet.Options{
		PartitionBy: partition, MergeTo: -1, RowGroup: t.options.RowGroup, Bloom: t.options.Bloom, Compression: t.options.Compression,
		OnImported: func(_ context.Context, _ *driver.File, parts []string) error {
			s.parts = parts
			return nil
		},
	})
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *scratch) remove() error { return os.RemoveAll(s.folder) }

// Ensure implements [driver.Target].
func (t *Tables) Ensure(ctx context.Context, table driver.Table) error {
	_, err := t.ensure(ctx, table)
	return t.objects.explain("ensure", strconv.Quote(table.ID), err)
}

// Extend implements [driver.Extender]. New parts have the new columns. Readers match the columns of parts by name.
func (t *Tables) Extend(ctx context.Context, table driver.Table) error {
	table.Extend = true
	return t.Ensure(ctx, table)
}

// Query implements [driver.Querier]. The query returns the rows with the latest times, if the table has a time, else the rows of the newest files.
func (t *Tables) Query(table driver.Table) (language, query string) {
	files := strings.ReplaceAll(t.objects.where+"/"+table.ID+"/**/*.parquet", "'", "''")
	return "DuckDB", parts.FilesQuery("read_parquet", "'"+files+"', union_by_name = true, hive_partitioning = true", table.Columns, true)
}

// Limits implements [driver.Limiter].
func (t *Tables) Limits() datatype.Limits { return (&parquet.Target{}).Limits() }

// Needs implements [driver.LocalDriver].
func (t *Tables) Needs(_, raw int64) (folder string, bytes int64) {
	return t.options.Scratch, raw + 64<<10
}

// Import implements [driver.Target]. A row with a cell that is not a canonical text of its type, or with text that is not UTF-8, is refused
// with a [*driver.RowsError].
func (t *Tables) Import(ctx context.Context, f *driver.File) error {
	if err := parts.CheckID("file", f.ID); err != nil {
		return err
	}
	return t.objects.explain("import", f.ID, t.importFile(ctx, f))
}

func (t *Tables) importFile(ctx context.Context, f *driver.File) (err error) {
	d, err := t.ensure(ctx, f.Table)
	if err != nil {
		return err
	}
	var rows int64 // as in the import, which checks every slice
	for _, obj := range f.Slices {
		rows += obj.Rows
	}
	var found []part // of a table that is not split. A retry finds the part before it sends it
	if d.Partition == "" {
		found, err = t.partsOf(ctx, d, f.ID)
		for _, p := range found {
			if p.rows != rows {
				return driver.Permanent(fmt.Errorf("%s has %d rows, but the file of that id has %d: "+
					"move the object away if it holds other rows; the file is then imported", t.objects.prefix+p.key, p.rows, rows))
			}
		}
		if err != nil {
			return err
		}
	}
	s, err := t.scratch(d.Partition)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := s.Ensure(ctx, driver.Table{ID: f.Table.ID, Columns: d.Columns}); err != nil {
		return err
	}
	if err := s.Import(ctx, f); err != nil {
		return err
	}
	for _, path := range s.parts {
		name, err := filepath.Rel(s.Path(f.Table.ID), path)
		if err != nil {
			return err
		}
		if d.Partition == "" { // a part of a folder that is not split has no number of rows in its name
			name = partName(f.ID, f.Rows)
		}
		// On disk, a file of several days is in a folder that one rename makes visible. Objects cannot be renamed, so their keys begin with the day.
		key := d.folder + strings.TrimPrefix(filepath.ToSlash(name), parts.ImportsDir+"/"+f.ID+"/")
		if err := t.putPart(ctx, key, path, len(found) > 0); err != nil {
			return err
		}
	}
	return nil
}

// putPart stores a part unless it is there. An object that has its key must have its rows.
func (t *Tables) putPart(ctx context.Context, key, path string, taken bool) error {
	if !taken {
		stored, err := t.objects.put(ctx, key, func() (io.ReadCloser, error) { return os.Open(path) })
		if stored || err != nil {
			return err
		}
	}
	return t.comparePart(ctx, key, path)
}

func partName(id string, rows int64) string { return fmt.Sprintf("%s.%d.parquet", id, rows) }

// part is an object of a table.
type part struct {
	key  string
	file string // its id
	rows int64
	at   time.Time // when it was stored
}

// partsOf lists the parts of a file, or of all files if id is "". In a table that is split it goes through all of them.
func (t *Tables) partsOf(ctx context.Context, d definition, id string) (found []part, err error) {
	prefix := d.folder
	if d.Partition == "" && id != "" {
		prefix += id + "."
	}
	err = t.objects.list(ctx, prefix, func(key string, at time.Time) error {
		file, rows, ok := cutPartName(key[strings.LastIndexByte(key, '/')+1:])
		if ok && (id == "" || file == id) {
			found = append(found, part{key, file, rows, at})
		}
		return nil
	})
	return found, err
}

// CountFile implements [driver.Counter]. It adds the numbers in the names of the parts. In a table that is split it lists all parts.
func (t *Tables) CountFile(ctx context.Context, table driver.Table, fileID string) (rows int64, err error) {
	if err := parts.CheckID("file", fileID); err != nil {
		return 0, err
	}
	d, err := t.definition(ctx, table.ID)
	var found []part
	if err == nil && d.Number > 0 {
		found, err = t.partsOf(ctx, d, fileID)
	}
	for _, p := range found {
		rows += p.rows
	}
	return rows, t.objects.explain("count", fileID, err)
}

// Uncreate implements [driver.Uncreator].
func (t *Tables) Uncreate(ctx context.Context, table, creation string) error {
	return t.objects.explain("uncreate", strconv.Quote(table), t.uncreate(ctx, table, creation))
}

func (t *Tables) uncreate(ctx context.Context, table, creation string) error {
	d, err := t.definition(ctx, table)
	if err != nil || d.Number == 0 || creation == "" || d.Creation != creation {
		return err
	}
	found, err := t.partsOf(ctx, d, "")
	if err != nil || len(found) > 0 {
		return err
	}
	keys, err := t.definitions(ctx, d.folder)
	slices.Reverse(keys) // a crash then leaves an older definition, and not a table without its first one
	for _, key := range keys {
		if err == nil {
			err = t.objects.delete(ctx, []string{key})
		}
	}
	return err
}
