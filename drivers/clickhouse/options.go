package clickhouse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Options are the options of a [Target]. The zero value means the defaults.
type Options struct {
	// OrderBy are the columns of the ordering key of new tables, the most important column first. Columns that a table lacks are ignored. Default: the
	// first required column of type timestamp or date, else the first such nullable column, else no key.
	OrderBy []string
	// PartitionBy is the SQL expression for the partition of a row in new tables, such as toYYYYMM(at). Default: tables have one partition. A block
	// becomes visible partition by partition.
	PartitionBy string
	// TTL is the SQL expression for the time at which rows of new tables expire, such as at + INTERVAL 90 DAY. Its columns must be required. Default: never.
	TTL string
	// Engine is the engine of new tables, such as ReplicatedMergeTree or ReplacingMergeTree(version). Without Cluster, and in a database whose engine is
	// not Replicated, a replicated engine needs a path in Keeper that contains {table}, and a replica:
	// ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}'). Default: MergeTree.
	Engine string
	// Cluster, if not "", creates and changes tables on all servers of this cluster.
	Cluster string
	// NativeJSON creates json columns of new tables with the type JSON. This type changes documents. It reorders keys and drops null. Rows with values
	// that are no objects are refused. Default: json columns are String.
	NativeJSON bool
	// BlockBytes limits the uncompressed bytes of the rows of one block. The server keeps a block in memory until it is stored. Larger files become visible
	// block by block. Default: 256 MiB. The minimum is 1 MiB. A slice is never divided.
	BlockBytes int64
	// Window is the number of blocks that a table without replication remembers for deduplication. The driver sets it in tables that remember
	// fewer. Default: 10,000.
	Window int
	// LazySync does not set the settings that make tables without replication durable. Such a table loses the imports of its last seconds when the
	// machine of the server loses power, and these imports are not repeated. Default: fsync_after_insert is set in tables that the driver creates, and in
	// tables without replication that lack it.
	LazySync bool
	// Settings are settings of the server for each INSERT, such as insert_quorum. They cannot replace the settings that exactly once depends on.
	Settings map[string]string
	// Token, if not nil, returns the JSON Web Token that authenticates each request. The address then has no user.
	Token func(context.Context) (string, error)
	// Transport, if not nil, makes the requests. Default: one like [http.DefaultTransport], with the TLS configuration of the address.
	Transport http.RoundTripper
}

// Target is a [driver.Target] whose tables are in a database of ClickHouse. It is safe for concurrent use.
type Target struct {
	client  client
	options Options

	mu       sync.Mutex
	settings map[string]bool // settings that the server has, or nil before they are known
	voids    bool            // the table voids is known to exist
}

var (
	_ driver.Target    = (*Target)(nil)
	_ io.Closer        = (*Target)(nil)
	_ driver.Extender  = (*Target)(nil)
	_ driver.Limiter   = (*Target)(nil)
	_ driver.Counter   = (*Target)(nil)
	_ driver.Taker     = (*Target)(nil)
	_ driver.Voider    = (*Target)(nil)
	_ driver.SQLTarget = (*Target)(nil)
	_ driver.Uncreator = (*Target)(nil)
	_ driver.Querier   = (*Target)(nil)
	_ driver.Tailer    = (*Target)(nil)
)

// Open returns a target for the database of a URL:
//
//	clickhouse://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE
//
// Special characters in the password are percent-encoded. The default port is 8123, and with TLS 8443. Several hosts are replicas. A request goes to
// the host that responded last, and to the next host if it cannot be reached. The URL accepts the parameters tls (true, false or skip-verify) and ca
// (a file with the trusted certificates, which implies tls=true).
//
// Open does not connect, so rows wait while the database is away. The caller closes the target after the engine.
func Open(address string, o Options) (*Target, error) {
	c, o, err := parse(address, o)
	if err != nil {
		return nil, err
	}
	return &Target{client: c, options: o}, nil
}

// Validate returns the error that [Open] would return for these arguments, and opens nothing.
func Validate(address string, o Options) error {
	_, _, err := parse(address, o)
	return err
}

const (
	defaultBlockBytes = 256 << 20
	minBlockBytes     = 1 << 20
	defaultWindow     = 10_000
)

// parse returns the client, and the options with their defaults.
func parse(address string, o Options) (client, Options, error) {
	if o.Engine == "" {
		o.Engine = "MergeTree"
	}
	if o.BlockBytes == 0 {
		o.BlockBytes = defaultBlockBytes
	}
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	o.OrderBy, o.Settings = slices.Clone(o.OrderBy), maps.Clone(o.Settings)
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf("clickhouse: "+format, args...)) }
	if o.BlockBytes < minBlockBytes {
		refuse("BlockBytes is %d, must be at least 1 MiB", o.BlockBytes)
	}
	if o.Window < 1 {
		refuse("Window is %d, must be at least 1", o.Window)
	}
	if !knownEngine(o.Engine) {
		refuse("Engine is %q, must be MergeTree or ReplacingMergeTree, or Replicated or Shared before one of the two", o.Engine)
	}
	if slices.Contains(o.OrderBy, "") {
		refuse("OrderBy has an empty name of a column")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Settings)) {
		if reservedSetting(name) {
			refuse("Settings has %s, which the driver sets itself", name)
		}
	}
	c, err := newClient(address, o)
	if err != nil {
		refuse("%w", err)
	} else if len(c.hosts) > 1 && knownEngine(o.Engine) && !replicated(o.Engine) {
		refuse("the address has several hosts, and Engine is %s: each host would get some of the rows. Use Replicated%s, or one host", o.Engine, o.Engine)
	}
	return c, o, errors.Join(errs...)
}

// knownEngine reports whether tables of an engine keep each row of a file until it is replaced or removed. Other engines sum rows up.
func knownEngine(engine string) bool {
	name, _, _ := strings.Cut(engine, "(")
	name = strings.TrimSpace(name)
	name = strings.TrimPrefix(strings.TrimPrefix(name, "Replicated"), "Shared")
	return name == "MergeTree" || name == "ReplacingMergeTree"
}

// replicated reports whether servers share the tables of an engine.
func replicated(engine string) bool {
	return strings.HasPrefix(engine, "Replicated") || strings.HasPrefix(engine, "Shared")
}

const form = "clickhouse://USER:PASSWORD@HOST:PORT/DATABASE"

// errAddress contains no part of the address, because a part may be the password.
var errAddress = errors.New("the address cannot be read: use " + form + ", and write in the password @ as %40, / as %2F, ? as %3F, # as %23")

// newClient reads an address.
func newClient(address string, o Options) (c client, err error) {
	rest, found := strings.CutPrefix(address, "clickhouse://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	// A password that is not encoded may end at the wrong place, and a part of it would be taken for the host.
	if authority := rest[:end]; !found || strings.Contains(rest[end:], "@") || strings.Count(authority, "@") > 1 {
		return c, errAddress
	}
	at := strings.LastIndex(rest[:end], "@") + 1
	hosts := strings.Split(rest[at:end], ",")
	u, err := url.Parse("clickhouse://" + rest[:at] + "host" + rest[end:])
	if err != nil || u.Fragment != "" {
		return c, errAddress
	}
	c.authorize, c.product, c.current = authorize(u.User, o.Token), driver.Product(), new(atomic.Int64)
	if o.Token != nil && u.User != nil {
		return c, errors.New("the address has a user, and Options.Token is set: remove one of them")
	}
	c.database = strings.TrimPrefix(u.Path, "/")
	if err := checkName("database", c.database); err != nil {
		return c, fmt.Errorf("the address %s: %w", form, err)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, errAddress
	}
	secure, config := false, &tls.Config{MinVersion: tls.VersionTLS12}
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "tls":
			if !slices.Contains([]string{"true", "false", "skip-verify"}, value) {
				return c, errors.New("tls in the address must be true, false or skip-verify")
			}
			secure = secure || value != "false"
			config.InsecureSkipVerify = value == "skip-verify"
		case "ca":
			pem, err := os.ReadFile(value)
			if err != nil {
				return c, fmt.Errorf("ca in the address: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return c, fmt.Errorf("ca in the address: %s has no certificate in PEM", value)
			}
			secure = true
		default:
			return c, fmt.Errorf("the address has the parameter %q: only tls and ca are accepted", name)
		}
	}
	if query.Has("ca") && query.Has("tls") {
		return c, errors.New("the address has both ca and tls: remove tls, because ca implies it")
	}
	scheme, port := "http", "8123"
	if secure {
		scheme, port = "https", "8443"
	}
	for _, host := range hosts {
		h, err := url.Parse(scheme + "://" + host)
		if err != nil || h.Host != host {
			return c, errAddress
		}
		if h.Hostname() == "" {
			return c, fmt.Errorf("the address %s has no host", form)
		}
		if h.Port() == "" {
			h.Host = net.JoinHostPort(h.Hostname(), port)
		}
		c.hosts = append(c.hosts, h.String()+"/")
	}
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig: config, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: 5 * time.Second,
			// Rows are already compressed, and responses are small.
			DisableCompression: true,
		}
	}
	// A redirect would send the rows and the password to a different server.
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// authorize returns the function that authenticates requests, with a token, a user, or nothing.
func authorize(user *url.Userinfo, token func(context.Context) (string, error)) func(context.Context, http.Header) error {
	return func(ctx context.Context, header http.Header) error {
		switch name := user.Username(); {
		case token != nil:
			text, err := token(ctx)
			if err != nil {
				return fmt.Errorf("the token: %w", err)
			}
			header.Set("Authorization", "Bearer "+text)
		case name != "":
			password, _ := user.Password()
			header.Set("X-ClickHouse-User", name)
			header.Set("X-ClickHouse-Key", password)
		}
		return nil
	}
}

// Close closes idle connections, and returns nil.
func (t *Target) Close() error {
	t.client.http.CloseIdleConnections()
	return nil
}

// Limits implements [driver.Limiter]. A DateTime64 with six digits, and a Date32, hold these years.
func (t *Target) Limits() datatype.Limits { return datatype.Limits{MinYear: 1900, MaxYear: 2299} }

const (
	// reserved begins the names of the tables and columns of the driver.
	reserved = "_forebay_"
	// marker is the column with the id of the file of a row.
	marker = reserved + "file"
	// voids is the table of the files that are ruled out.
	voids = reserved + "void"
)

// check refuses a table whose names the server would not keep.
func (t *Target) check(table driver.Table) error {
	err := checkName("table", table.ID)
	if err == nil && strings.HasPrefix(table.ID, reserved) {
		err = fmt.Errorf("the name of the table %q begins with %s, which is reserved for tables of the driver", table.ID, reserved)
	}
	for _, name := range table.Names() {
		if err == nil {
			err = checkName("column", name)
		}
		if err == nil && strings.HasPrefix(name, reserved) {
			err = fmt.Errorf("the name of the column %q begins with %s, which is reserved for columns of the driver", name, reserved)
		}
	}
	if err != nil {
		return driver.Permanent(fmt.Errorf("clickhouse: %w", err))
	}
	return nil
}

// maxName is the maximum length of the name of a table or column, in bytes of the file name on the server. Letters, digits and _ take one byte, and
// every other byte takes three. A file name may have 255 bytes, and the server adds a suffix.
const maxName = 200

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of the %s is empty", what)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("the name of the %s %q has a character that ClickHouse does not accept in names: use UTF-8 without NUL", what, name)
	}
	n := 0
	for _, b := range []byte(name) {
		n += 3
		if b == '_' || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' {
			n -= 2
		}
	}
	if n > maxName {
		return fmt.Errorf("the name of the %s %.100q is too long for ClickHouse: it has %d bytes in the name of a file, %d are accepted", what, name, n, maxName)
	}
	return nil
}

var (
	nameEscapes = strings.NewReplacer("\\", "\\\\", "`", "\\`")
	textEscapes = strings.NewReplacer("\\", "\\\\", "'", "\\'")
)

// quote returns a name as SQL.
func quote(name string) string { return "`" + nameEscapes.Replace(name) + "`" }

// literal returns a text as SQL.
func literal(text string) string { return "'" + textEscapes.Replace(text) + "'" }

// table returns the name of a table as SQL.
func (t *Target) table(id string) string { return quote(t.client.database) + "." + quote(id) }

// SQL implements [driver.SQLTarget].
func (t *Target) SQL(table driver.Table) driver.SQLSyntax {
	return driver.SQLSyntax{
		Table: t.table(table.ID), Quote: quote, Text: literal,
		Contains: func(column, literal string) string {
			return "position(lowerUTF8(toString(" + column + ")), " + literal + ") > 0"
		},
	}
}
