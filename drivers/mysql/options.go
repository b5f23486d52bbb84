package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/retention"
	"github.com/forebay/forebay/driverkit/sqltail"
)

// Options are the options of a [Target]. The zero value has a default for each.
type Options struct {
	// Keys are the columns of the primary key of a table, by Table.ID. A row of such a table replaces the row with its key. Rows of one file
	// count in their order. Of two files, the later import wins.
	Keys map[string][]string
	// Indexes lists the columns of indexes. A table that the driver creates gets each index of whose columns it has all. Existing tables stay as
	// they are, so create the index yourself. Each index slows imports. Of a text column, the index has the first 191 characters.
	Indexes [][]string
	// NativeJSON makes json columns of new tables in MySQL of the type JSON. MySQL then changes documents. It orders keys, keeps the last of
	// equal ones and rewrites numbers. MariaDB ignores the option, because its JSON is text.
	NativeJSON bool
	// InsertOnly sends rows by INSERT even if the server accepts LOAD DATA LOCAL.
	InsertOnly bool
	// MaxConns bounds the connections. An import needs one. Default: 8.
	MaxConns int
	// LockTimeout is how long an import waits for a lock, for example while another attempt of the same file runs. It is rounded up to seconds. A
	// change of a table waits for at most 2 seconds, because readers wait for it. Default: 10 s.
	LockTimeout time.Duration
	// KeepIDs is how long the id of an imported file is remembered. A file that is retried later than this is imported again, so it must be
	// longer than any outage after which files of staging are still imported. Default: 1 year. The least is 30 days.
	KeepIDs time.Duration
	// KeepFor, if not 0, makes Compact remove rows older than this. The engine runs Compact after imports and at least once an hour. The age is the
	// time since the first of the columns KeepBy that a row has. Rows stay up to a 24th of KeepFor longer. Default: forever.
	KeepFor time.Duration
	// KeepBy names columns of type timestamp or date. A date is over at its end. A row in which all of them are NULL stays, and so do the rows
	// of a table that has none of them.
	KeepBy []string
	// TrustTriggers says that an error which a trigger of yours raises by SIGNAL is always about the row. Then the row leaves its file and goes
	// to the quarantine. Default: the file is held until the operator decides, see forebay.SinkHandle.SplitFile.
	TrustTriggers bool
	// LazyLog accepts a server whose innodb_flush_log_at_trx_commit is not 1. Such a server loses the imports of its last second when it, or its
	// machine, crashes, and they are not repeated. Default: imports are held until the setting is 1.
	LazyLog bool
	// Configure, if not nil, changes the configuration of the connections, for example to get passwords from elsewhere. The session variables in
	// Params must stay, because strict mode is among them.
	Configure func(*mysql.Config)
}

const minKeepIDs = 30 * 24 * time.Hour

// Target is a [driver.Target] whose tables are in a database of MySQL or MariaDB. It is safe for concurrent use.
type Target struct {
	db       *sql.DB
	database string
	options  Options
	keep     *retention.Rule
	cleaned  atomic.Int64 // when old ids were removed last, in Unix seconds
}

var (
	_ driver.Target    = (*Target)(nil)
	_ io.Closer        = (*Target)(nil)
	_ driver.Extender  = (*Target)(nil)
	_ driver.Limiter   = (*Target)(nil)
	_ driver.Counter   = (*Target)(nil)
	_ driver.Voider    = (*Target)(nil)
	_ driver.SQLTarget = (*Target)(nil)
	_ driver.Uncreator = (*Target)(nil)
	_ driver.Compactor = (*Target)(nil)
	_ driver.Querier   = (*Target)(nil)
)

// Open returns a target for the database of a URL:
//
//	mysql://USER:PASSWORD@HOST:PORT/DATABASE
//
// Special characters in the password are percent-encoded. The default port is 3306. The URL accepts the parameters tls (true, false, preferred or
// skip-verify), ca (a file with the certificates that the server's is checked against, which implies tls=true) and socket (the path of a Unix
// socket, instead of the host). With preferred, the default, the connection is encrypted if the server can, and the certificate is not checked.
//
// Open does not connect, so rows wait while the database is away. The caller closes the target after the engine.
func Open(address string, o Options) (*Target, error) {
	cfg, o, err := parse(address, o)
	if err != nil {
		return nil, err
	}
	keep, err := retention.New(o.KeepFor, o.KeepBy)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	if o.Configure != nil {
		o.Configure(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(o.MaxConns)
	db.SetMaxIdleConns(o.MaxConns)
	db.SetConnMaxIdleTime(silence / 2)
	return &Target{db: db, database: cfg.DBName, options: o, keep: keep}, nil
}

// Validate returns the error that [Open] would return for these arguments, and opens nothing. It does not call Options.Configure.
func Validate(address string, o Options) error {
	_, _, err := parse(address, o)
	return err
}

// DB returns connections to the database of an address of [Open], for a reader. Names in SQL may be in double quotes, and times are in UTC. It
// does not connect. The caller closes the result.
func DB(address string) (*sql.DB, error) {
	cfg, _, err := parse(address, Options{})
	if err != nil {
		return nil, err
	}
	cfg.Params["sql_mode"] = "'STRICT_ALL_TABLES,ANSI_QUOTES'"
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// silence is how long the server waits for a client that hangs, in a statement or between two. Then it ends the connection, and with it the
// transaction and its locks.
const silence = 2 * time.Minute

// parse returns the configuration of the connections, and the options with their defaults.
func parse(address string, o Options) (*mysql.Config, Options, error) {
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
		return nil, o, fmt.Errorf("mysql: MaxConns is %d, must be 1 to 1000", o.MaxConns)
	case o.LockTimeout < time.Millisecond:
		return nil, o, fmt.Errorf("mysql: LockTimeout is %s, must be at least 1ms", o.LockTimeout)
	case o.KeepIDs < minKeepIDs:
		return nil, o, fmt.Errorf("mysql: KeepIDs is %s, must be at least 30 days", o.KeepIDs)
	}
	if _, err := retention.New(o.KeepFor, o.KeepBy); err != nil {
		return nil, o, fmt.Errorf("mysql: %w", err)
	}
	o.Keys = maps.Clone(o.Keys)
	for table, key := range o.Keys {
		if len(key) == 0 {
			return nil, o, fmt.Errorf("mysql: Keys of table %q has no column", table)
		}
		o.Keys[table] = slices.Clone(key)
	}
	for _, columns := range o.Indexes {
		if len(columns) == 0 {
			return nil, o, errors.New("mysql: Indexes has an index without a column")
		}
	}
	cfg, err := config(address)
	if err != nil {
		return nil, o, fmt.Errorf("mysql: %w", err)
	}
	wait := seconds(o.LockTimeout)
	cfg.Params = map[string]string{
		// Without strict mode the server cuts values. With a zero in a column that counts by itself, it would store another number.
		"sql_mode":  "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
		"time_zone": "'+00:00'", "autocommit": "1", "unique_checks": "1", "foreign_key_checks": "1",
		"innodb_lock_wait_timeout": wait, "lock_wait_timeout": wait,
		"wait_timeout": seconds(silence), "net_read_timeout": seconds(silence), "net_write_timeout": seconds(silence),
		// The driver reads these texts.
		"lc_messages": "'en_US'", "sql_quote_show_create": "1",
	}
	return cfg, o, nil
}

// seconds returns a time as the server's settings have it.
func seconds(d time.Duration) string { return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10) }

// errAddress contains nothing of the address, because a part of it may be the password.
var errAddress = errors.New("the address cannot be read: use mysql://USER:PASSWORD@HOST:PORT/DATABASE, and write in the password @ as %40, / as %2F, ? as %3F, # as %23")

// config reads an address.
func config(address string) (*mysql.Config, error) {
	rest, found := strings.CutPrefix(address, "mysql://")
	// A password that is not encoded may end at the wrong place, and a part of it would be taken for the host.
	if end := strings.IndexAny(rest, "/?#"); !found || end >= 0 && strings.Contains(rest[end:], "@") {
		return nil, errAddress
	}
	u, err := url.Parse(address)
	if err != nil || u.Fragment != "" {
		return nil, errAddress
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	if err := checkName("database", cfg.DBName); err != nil {
		return nil, fmt.Errorf("the address mysql://USER:PASSWORD@HOST:PORT/DATABASE: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	host := u.Hostname()
	cfg.Net, cfg.TLSConfig = "tcp", "preferred"
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errAddress
	}
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "tls":
			if !slices.Contains([]string{"true", "false", "preferred", "skip-verify"}, value) {
				return nil, errors.New("tls in the address must be true, false, preferred or skip-verify")
			}
			cfg.TLSConfig = value
		case "socket":
			cfg.Net, cfg.Addr, cfg.TLSConfig = "unix", value, "false"
		case "ca":
			pem, err := os.ReadFile(value)
			if err != nil {
				return nil, fmt.Errorf("ca in the address: %w", err)
			}
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("ca in the address: %s has no certificate in PEM", value)
			}
			cfg.TLS = &tls.Config{RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS12}
		default:
			return nil, fmt.Errorf("the address has the parameter %q; there are tls, ca and socket", name)
		}
	}
	switch {
	case cfg.TLS != nil && (cfg.Net == "unix" || query.Has("tls")):
		return nil, errors.New("ca in the address stands alone: it is neither for tls=… nor for socket=…")
	case cfg.TLS != nil:
		cfg.TLSConfig = ""
	}
	if cfg.Net == "tcp" {
		if host == "" {
			return nil, errors.New("the address mysql://USER:PASSWORD@HOST:PORT/DATABASE has no host")
		}
		cfg.Addr = net.JoinHostPort(host, port)
	}
	cfg.Timeout = 10 * time.Second // to connect
	cfg.InterpolateParams = true   // a proxy may give each transaction another connection of the server, so nothing is prepared
	cfg.MaxAllowedPacket = 0       // as the server says
	cfg.Logger = &mysql.NopLogger{}
	return cfg, nil
}

// Close closes the connections. It waits for calls that run.
func (t *Target) Close() error { return t.db.Close() }

const (
	// maxDepth is the greatest number of levels that a JSON document in MariaDB 10.11 may have. MySQL accepts 100.
	maxDepth = 31
	// maxCell is the capacity of a MEDIUMTEXT. It is also the greatest part of a message of the protocol.
	maxCell = 1<<24 - 1
)

// Limits implements [driver.Limiter].
func (t *Target) Limits() datatype.Limits {
	return datatype.Limits{UTF8: true, NoNaN: true, MaxDepth: maxDepth, MaxCell: maxCell}
}

// Query implements [driver.Querier]. The query returns the rows with the latest times if the table has a time, else it orders the
// rows by the key or the first column, because MySQL does not tell the order of the imports.
func (t *Target) Query(table driver.Table) (language, query string) {
	query = "SELECT * FROM " + t.table(table.ID)
	by := sqltail.OrderColumn(table.Columns, t.options.KeepBy...)
	if keys := t.options.Keys[table.ID]; len(keys) > 0 && sqltail.TimeColumn(table.Columns, t.options.KeepBy...) == "" {
		by = keys[0]
	}
	if by != "" {
		query += " ORDER BY " + quote(by) + " DESC"
	}
	return "MySQL", query + " LIMIT 20"
}

// reserved begins the names of the driver's tables.
const reserved = "_forebay_"

// check refuses a table whose names the server would not keep, or that has no column of its key.
func (t *Target) check(table driver.Table) error {
	err := checkName("table", table.ID)
	if err == nil && strings.HasPrefix(table.ID, reserved) {
		err = fmt.Errorf("the name of the table %q begins with %s, which is reserved for our own tables", table.ID, reserved)
	}
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
		return driver.Permanent(fmt.Errorf("mysql: %w", err))
	}
	return nil
}

// maxName is the longest name in characters.
const maxName = 64

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of the %s is empty", what)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r == 0 || r > 0xffff }):
		return fmt.Errorf("the name of the %s %q has a character that MySQL does not accept in names: use UTF-8 without NUL and without characters of four bytes", what, name)
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("the name of the %s %.100q has %d characters, MySQL accepts %d", what, name, utf8.RuneCountInString(name), maxName)
	case strings.HasSuffix(name, " "):
		return fmt.Errorf("the name of the %s %q ends with a space, which MySQL does not accept", what, name)
	}
	return nil
}

// quote returns a name as SQL.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quoteAll returns a list of names as SQL.
func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote(name)
	}
	return strings.Join(quoted, ", ")
}

// table returns the name of a table as SQL.
func (t *Target) table(id string) string { return quote(t.database) + "." + quote(id) }

var textEscapes = strings.NewReplacer(`\`, `\\`, `'`, `''`)

// SQL implements [driver.SQLTarget]. Its texts are for a session without NO_BACKSLASH_ESCAPES.
func (t *Target) SQL(table driver.Table) driver.SQLSyntax {
	return driver.SQLSyntax{
		Table: t.table(table.ID), Quote: quote, Text: func(text string) string { return "'" + textEscapes.Replace(text) + "'" },
		Contains: func(column, literal string) string {
			return "LOCATE(" + literal + ", LOWER(CAST(" + column + " AS CHAR))) > 0"
		},
	}
}
