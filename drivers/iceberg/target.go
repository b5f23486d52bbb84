package iceberg

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/apache/iceberg-go/catalog"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	iceberglib "github.com/apache/iceberg-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqlfile"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// Options are the choices of [Open] and [New]. A zero field means its default.
type Options struct {
	// Namespace is the namespace of the tables. It is created if it is absent. Default: "forebay".
	Namespace string
	// PartitionBy names a column of type date or timestamp. A new table that has it is partitioned by day (UTC). Other tables, and
	// tables that exist, are not changed.
	PartitionBy string
	// KeepSnapshots is how long a snapshot stays after a newer one. [Target.Compact] expires older ones, except the newest 10, and
	// deletes the files that only they have. Default: 10 minutes. Below zero means forever. Each kept snapshot makes every commit
	// slower.
	KeepSnapshots time.Duration
	// Bloom names columns of type string that are searched for single values, such as the id of a trace. Merged data files of a table that has such
	// a column get Bloom filters of it, with which engines skip the row groups without the value. A filter takes 128 KiB a row group, so the
	// small files of imports have none.
	Bloom []string
	// MergeTo is the size in bytes up to which small data files of this driver are merged in the background. The default is 128 MiB, and -1
	// merges nothing. The merged files stay on disk until their snapshots expire.
	MergeTo int64
	// KeepOrphans is how long a data file of this driver stays to which no snapshot refers. A killed process leaves such files.
	// It must be longer than any import takes. Default: 3 days. Below zero means forever.
	KeepOrphans time.Duration
	// KeepIDs is how long the ids of an engine that imports nothing stay in the table. It must be longer than any pause after which an
	// engine may repeat an import. Default: 90 days. Below zero means forever.
	KeepIDs time.Duration
}

// Target is a [driver.Target] whose tables are in an Iceberg catalog. It is safe for concurrent use, including next to other programs that
// write to the tables.
type Target struct {
	catalog catalog.Catalog
	opts    Options
	// syncCatalog makes a commit durable that was found in the catalog.
	syncCatalog func(context.Context) error

	mu         sync.Mutex
	committers map[string]*committer // by table
}

// Local is a [Target] on a disk of this machine.
type Local struct {
	*Target
	folder string
	db     *sql.DB
}

var (
	_ driver.Target      = (*Target)(nil)
	_ driver.Extender    = (*Target)(nil)
	_ driver.Limiter     = (*Target)(nil)
	_ driver.Counter     = (*Target)(nil)
	_ driver.Taker       = (*Target)(nil)
	_ driver.Uncreator   = (*Target)(nil)
	_ driver.Compactor   = (*Target)(nil)
	_ driver.Querier     = (*Target)(nil)
	_ driver.LocalDriver = (*Local)(nil)
)

// New returns a target for the tables of a catalog. The caller closes the catalog after the engine. Tables in local folders are
// synced. For that, New and [Open] replace the local files of iceberg-go in the whole process. For buckets import the scheme, for
// example github.com/apache/iceberg-go/io/gocloud/s3.
func New(c catalog.Catalog, opts Options) *Target {
	opts.Namespace = cmp.Or(opts.Namespace, "forebay")
	opts.KeepSnapshots = cmp.Or(opts.KeepSnapshots, 10*time.Minute)
	opts.MergeTo = cmp.Or(opts.MergeTo, 128<<20)
	opts.KeepOrphans = cmp.Or(opts.KeepOrphans, 3*24*time.Hour)
	opts.KeepIDs = cmp.Or(opts.KeepIDs, 90*24*time.Hour)
	registerLocalFiles()
	return &Target{
		catalog: c, opts: opts, committers: make(map[string]*committer),
		syncCatalog: func(context.Context) error { return nil },
	}
}

// Open opens or creates a warehouse, a folder on a local disk with the catalog, catalog.db, and the tables. Several processes may use it
// at the same time. The caller closes it after the engine.
func Open(folder string, opts Options) (*Local, error) {
	folder, err := filepath.Abs(folder)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		err = sqlfile.Create(filepath.Join(folder, "catalog.db"))
	}
	if err != nil {
		return nil, fmt.Errorf("iceberg: %w", err)
	}
	registerLocalFiles()
	dsn := fileURL(filepath.Join(folder, "catalog.db"))
	dsn.RawQuery = url.Values{
		"_pragma": {"busy_timeout(10000)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("iceberg: %w", err)
	}
	err = useLog(db)
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS _forebay_sync (n INTEGER NOT NULL); INSERT INTO _forebay_sync SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM _forebay_sync)")
	}
	var c *sqlcat.Catalog
	if err == nil {
		c, err = sqlcat.NewCatalog("forebay", db, sqlcat.SQLite, iceberglib.Properties{"warehouse": fileURL(folder).String()})
	}
	if err != nil {
		return nil, fmt.Errorf("iceberg: open %s: %w", folder, errors.Join(err, db.Close()))
	}
	l := &Local{Target: New(c, opts), folder: folder, db: db}
	l.syncCatalog = l.syncLog
	return l, nil
}

// useLog sets the journal mode, which the file keeps. SQLite does not wait for a lock here if another process changes the mode at the same
// time, whatever busy_timeout says.
func useLog(db *sql.DB) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := db.Exec("PRAGMA journal_mode = WAL")
		var failure *sqlite.Error
		if !errors.As(err, &failure) || failure.Code()&0xff != sqlite3.SQLITE_BUSY || time.Now().After(deadline) {
			return err
		}
	}
}

// fileURL returns the URL of a path, with three slashes. After two, some readers expect a host.
func fileURL(path string) *url.URL {
	path = filepath.ToSlash(path)
	if path[0] != '/' { // a drive
		path = "/" + path
	}
	return &url.URL{Scheme: "file", Path: path}
}

// syncLog makes earlier commits durable by a new commit. A process may have been killed between writing a commit and syncing it. SQLite
// reads such a commit after a restart, but a power cut would still undo it.
func (l *Local) syncLog(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, "UPDATE _forebay_sync SET n = n + 1")
	return err
}

// Catalog returns the catalog, for programs that read or maintain the tables. It is open until Close.
func (t *Target) Catalog() catalog.Catalog { return t.catalog }

// Close closes the catalog. Calls that run fail.
func (l *Local) Close() error {
	var err error
	if c, ok := l.catalog.(catalog.Closer); ok {
		err = c.Close()
	}
	return errors.Join(err, l.db.Close())
}

// Needs implements [driver.LocalDriver]. The driver writes the rows as Parquet, and the metadata of the table.
func (l *Local) Needs(_, raw int64) (folder string, bytes int64) {
	const metadata = 16 << 20
	if raw == 0 { // before Compact
		return l.folder, metadata + max(l.opts.MergeTo, 0)
	}
	return l.folder, metadata + raw
}

// Query implements [driver.Querier]. The query returns the rows with the latest times if the table has a time,
// else it orders the rows by the first column. A query engine may know the catalog by a name, which
// stands in front.
func (t *Target) Query(table driver.Table) (language, query string) {
	query = "SELECT * FROM " + sqlfile.Quote(t.opts.Namespace) + "." + sqlfile.Quote(table.ID)
	if by := sqltail.OrderColumn(table.Columns); by != "" {
		query += " ORDER BY " + sqlfile.Quote(by) + " DESC NULLS LAST"
	}
	return "SQL", query + " LIMIT 20"
}

// Limits implements [driver.Limiter]. The size of a page has 31 bits.
func (t *Target) Limits() datatype.Limits { return datatype.Limits{UTF8: true, MaxCell: 1 << 30} }
