package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/retention"
	"github.com/forebay/forebay/driverkit/userinfo"
)

// Options are the options of a [Target]. The zero value has a default for each.
type Options struct {
	// Schema has the tables and the table of imported files. It must exist. Default: public.
	Schema string
	// JSONB makes json columns of new tables jsonb instead of json. PostgreSQL then changes documents. It orders keys, keeps the
	// last of equal ones and rewrites numbers. A number that numeric cannot hold is a refused row.
	JSONB bool
	// Keys are the columns of the primary key of a table, by Table.ID. A row of such a table replaces the row with its key. Rows
	// of one file count in their order. Of two files the later import wins.
	Keys map[string][]string
	// Indexes lists the columns of indexes. A table that the driver creates gets each index of whose columns it has all. Tables that exist stay as they
	// are, so create the index yourself. Each index slows imports. PostgreSQL refuses a row whose indexed texts have more than about 2,700 bytes.
	Indexes [][]string
	// MaxConns bounds the connections, one an import. Default: 8.
	MaxConns int
	// LockTimeout is how long an import waits for a lock, for example while another attempt of the same file runs. A change of a
	// table waits for at most 2 seconds, because readers wait for it. Default: 10 s.
	LockTimeout time.Duration
	// KeepIDs is how long the id of an imported file is remembered. A file that is retried later than this is imported again, so
	// it must be longer than any outage after which files of staging are still imported. Default: 1 year. The least is 30 days.
	KeepIDs time.Duration
	// KeepFor, if not 0, makes Compact remove rows older than this. The engine runs Compact after imports and at least once an hour. The age is the
	// time since the first of the columns KeepBy that a row has. Rows stay up to a 24th of KeepFor longer. Default: forever.
	KeepFor time.Duration
	// KeepBy names columns of type timestamp or date. A date is over at its end. A row in which all of them are NULL stays, and so do the rows
	// of a table that has none of them.
	KeepBy []string
	// TrustTriggers says that an error which a trigger of yours raises is always about the row. Then the row leaves its file for it and goes to the
	// quarantine. Default: the file is held until an operator decides, see forebay.SinkHandle.SplitFile.
	TrustTriggers bool
	// Configure, if not nil, changes the configuration of the connections, for example to get passwords from elsewhere.
	Configure func(*pgxpool.Config)
}

const minKeepIDs = 30 * 24 * time.Hour

// Target is a [driver.Target] whose tables are in a PostgreSQL database. It is safe for concurrent use.
type Target struct {
	pool    *pgxpool.Pool
	options Options
	keep    *retention.Rule
	cleaned atomic.Int64 // when old ids were removed last, in Unix seconds

	leastStatement time.Duration // see importTimeout
}

var (
	_ driver.Target       = (*Target)(nil)
	_ io.Closer           = (*Target)(nil)
	_ driver.Extender     = (*Target)(nil)
	_ driver.ManyImporter = (*Target)(nil)
	_ driver.Limiter      = (*Target)(nil)
	_ driver.Counter      = (*Target)(nil)
	_ driver.Uncreator    = (*Target)(nil)
	_ driver.Compactor    = (*Target)(nil)
	_ driver.Querier      = (*Target)(nil)
	_ driver.Tailer       = (*Target)(nil)
	_ driver.SQLTarget    = (*Target)(nil)
)

// Open returns a target for the database of a connection string, which is a URL, or words like host=… dbname=…, as libpq reads them, with
// its environment variables and password file. It does not connect, so rows wait while the database is away. The caller closes the
// target after the engine.
func Open(connString string, o Options) (*Target, error) {
	cfg, o, err := parse(connString, o)
	if err != nil {
		return nil, err
	}
	keep, err := retention.New(o.KeepFor, o.KeepBy)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if o.Configure != nil {
		o.Configure(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return &Target{pool: pool, options: o, keep: keep, leastStatement: 2 * time.Minute}, nil
}

// Validate returns the error that [Open] would return for these arguments, and opens nothing. It does not call Options.Configure.
func Validate(connString string, o Options) error {
	_, _, err := parse(connString, o)
	return err
}

// parse returns the configuration of the connections, and the options with their defaults.
func parse(connString string, o Options) (*pgxpool.Config, Options, error) {
	if strings.HasPrefix(connString, "postgres://") || strings.HasPrefix(connString, "postgresql://") {
		if err := userinfo.Check(connString); err != nil {
			return nil, o, fmt.Errorf("postgres: the connection string cannot be read: %v", err)
		}
	}
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil { // its text may contain the password
		return nil, o, errors.New("postgres: the connection string cannot be read: use postgres://user:password@host:port/database or host=… user=… dbname=…, and check sslmode and files that it names")
	}
	if o.Schema == "" {
		o.Schema = "public"
	}
	if o.MaxConns == 0 {
		o.MaxConns = 8
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = 10 * time.Second
	}
	if o.KeepIDs == 0 {
		o.KeepIDs = 365 * 24 * time.Hour
	}
	switch {
	case o.MaxConns < 0 || o.MaxConns > 1000:
		return nil, o, fmt.Errorf("postgres: MaxConns is %d, must be 1 to 1000", o.MaxConns)
	case o.LockTimeout < time.Millisecond:
		return nil, o, fmt.Errorf("postgres: LockTimeout is %s, must be at least 1ms", o.LockTimeout)
	case o.KeepIDs < minKeepIDs:
		return nil, o, fmt.Errorf("postgres: KeepIDs is %s, must be at least 30 days", o.KeepIDs)
	}
	if _, err := retention.New(o.KeepFor, o.KeepBy); err != nil {
		return nil, o, fmt.Errorf("postgres: %w", err)
	}
	if err := checkName("schema", o.Schema); err != nil {
		return nil, o, fmt.Errorf("postgres: Schema: %w", err)
	}
	o.Keys = maps.Clone(o.Keys)
	for table, key := range o.Keys {
		if len(key) == 0 {
			return nil, o, fmt.Errorf("postgres: Keys of table %q has no column", table)
		}
		o.Keys[table] = slices.Clone(key)
	}
	for _, columns := range o.Indexes {
		if len(columns) == 0 {
			return nil, o, errors.New("postgres: Indexes has an index without a column")
		}
	}
	cfg.MaxConns = int32(o.MaxConns)
	// A pooler may give each transaction another connection of the server, so nothing is prepared and nothing is cached.
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.ConnConfig.StatementCacheCapacity, cfg.ConnConfig.DescriptionCacheCapacity = 0, 0
	cfg.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = driver.Product()
	}
	if !strings.Contains(connString, "connect_timeout") && os.Getenv("PGCONNECT_TIMEOUT") == "" {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	return cfg, o, nil
}

// Close closes the connections. It waits for calls that run, and returns nil.
func (t *Target) Close() error {
	t.pool.Close()
	return nil
}

// maxDepth bounds the levels of a JSON document. With the default of max_stack_depth, 2 MB, PostgreSQL accepts between 9,000 and 14,000 levels,
// depending on its build.
const maxDepth = 6000

// Limits implements [driver.Limiter]. PostgreSQL stores no NUL, and only UTF-8. A number in jsonb is a numeric.
func (t *Target) Limits() datatype.Limits {
	l := datatype.Limits{UTF8: true, NoNUL: true, MaxDepth: maxDepth}
	if t.options.JSONB {
		l.NumberDigits, l.NumberScale = 131072, 16383
	}
	return l
}

// reserved begins the names of the driver's tables.
const reserved = "_forebay_"

// check refuses a table whose names PostgreSQL would cut, or that has no column of its key.
func (t *Target) check(table driver.Table) error {
	err := checkID(table.ID)
	names := table.Names()
	for _, name := range names {
		if err == nil {
			err = checkName("column", name)
		}
	}
	for _, key := range t.options.Keys[table.ID] {
		if err == nil && !slices.Contains(names, key) {
			err = fmt.Errorf("the key of table %q has the column %q, which its mapping lacks", table.ID, key)
		}
	}
	if err != nil {
		return driver.Permanent(fmt.Errorf("postgres: %w", err))
	}
	return nil
}

// checkID refuses a name of a table that PostgreSQL would cut, or that belongs to the driver.
func checkID(id string) error {
	err := checkName("table", id)
	if err == nil && strings.HasPrefix(id, reserved) {
		err = fmt.Errorf("the name of the table %q begins with %s, which is reserved for our own tables", id, reserved)
	}
	return err
}

// maxName is the longest name in bytes. PostgreSQL cuts longer ones without an error, so that two may become one.
const maxName = 63

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of the %s is empty", what)
	case len(name) > maxName:
		return fmt.Errorf("the name of the %s %.100q has %d bytes, PostgreSQL takes %d", what, name, len(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("the name of the %s %q is not UTF-8 without NUL", what, name)
	}
	return nil
}

// quote returns a name as SQL.
func quote(names ...string) string { return pgx.Identifier(names).Sanitize() }

// quoteAll returns a list of names as SQL.
func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote(name)
	}
	return strings.Join(quoted, ", ")
}

// table returns the name of a table as SQL.
func (t *Target) table(id string) string { return quote(t.options.Schema, id) }

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// SQL implements [driver.SQLTarget].
func (t *Target) SQL(table driver.Table) driver.SQLSyntax {
	return driver.SQLSyntax{
		Table: t.table(table.ID), Quote: func(name string) string { return quote(name) },
		Text: func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" },
		Contains: func(column, literal string) string {
			return "position(" + literal + " in lower(CAST(" + column + " AS text))) > 0"
		},
	}
}
