package server

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/program/duration"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/stream"
)

// Config are the options of a server. [Config.Register] makes a flag of each, with its description.
type Config struct {
	// Addr accepts events, APIAddr the calls of the API. Dir is the data directory.
	Addr, APIAddr, Dir string
	// Optional names the flags of addresses that the operator did not set and that the server does not need. If such a port is in use, the server
	// listens on a free port.
	Optional map[string]bool
	// Token is the token of the API. Empty means one in a file of Dir, made at the first start.
	Token string
	// Source is the id of a source to create as an example, empty for none.
	Source string
	// Stream are the options of the handler of events.
	Stream stream.Options
	// APIURL and IngestURL begin the addresses in responses. Empty means where this process listens.
	APIURL, IngestURL string
	LogLevel          slog.Level
	LogFormat         string
	ShutdownTimeout   time.Duration
	Admin             string
	MaxConnections    int
	// MaxSources is how many sources there may be. 0 means the default of the engine.
	MaxSources int
	// Tuning has MaxDiskBytes, MaxSinkBytes and MinImportInterval.
	Tuning buffer.Tuning
	// Tables are the options of the folder tables, and Extend the default of sinks, whose tables grow.
	Tables dir.TablesOptions
	Extend bool
	// NetHTTP serves events with net/http in place of package fastserver.
	NetHTTP bool
	// UI serves the console in addition to the API.
	UI bool
}

// Register makes a flag of each option, with its default.
func (cfg *Config) Register(flags *flag.FlagSet) {
	flags.StringVar(&cfg.Addr, "addr", "127.0.0.1:8080", "address for receiving events, HOST:PORT (e.g. 0.0.0.0:8080)")
	flags.StringVar(&cfg.APIAddr, "api-addr", "127.0.0.1:8081", "address of the Stream API, /metrics and the console, HOST:PORT (e.g. 10.0.0.1:8081)")
	flags.StringVar(&cfg.APIURL, "api-public-url", "", "base URL at which clients reach the Stream API, for links in responses (default http:// and -api-addr; e.g. https://api.example.com)")
	flags.StringVar(&cfg.IngestURL, "ingest-public-url", "", "base URL at which clients send events, for links in responses (default http:// and -addr; e.g. https://in.example.com)")
	flags.StringVar(&cfg.Token, "token", "", "token of the Stream API and the console (default created at the first start, in DIR/token; e.g. 3zn1qcr5kd0vw8ta)")
	flags.StringVar(&cfg.Admin, "admin", "", "loopback address for admin requests, such as POST /checkpoint (default none; e.g. 127.0.0.1:8082)")
	flags.IntVar(&cfg.MaxConnections, "max-connections", 20_000, "maximum number of connections for events; above this number, idle ones are closed (e.g. 50000)")
	flags.IntVar(&cfg.MaxSources, "max-sources", 0, "maximum number of sources, up to 100000 (default 100; e.g. 10000)")
	flags.Int64Var(&cfg.Tuning.MaxDiskBytes, "max-disk-bytes", 0, "maximum disk space, in bytes, for all rows that are not in their tables yet; at the limit, events get 503 (default 17179869184, 16 GiB; e.g. 107374182400)")
	flags.BoolVar(&cfg.Tuning.UnreadyWhenFull, "unready-when-full", false, "/readiness-check returns 503 while the disk is full, so that a load balancer uses other nodes")
	flags.Int64Var(&cfg.Tuning.MaxSinkBytes, "max-sink-bytes", 0, "maximum disk space, in bytes, for the rows of one sink; at the limit, its events get 503 (default half of -max-disk-bytes; e.g. 1073741824)")
	duration.Var(flags, &cfg.Tuning.MinImportInterval, "min-import-interval", 0, "shortest import interval that a sink may have, a duration of 1s or more (default 30s; e.g. 5s)")
	flags.BoolVar(&cfg.NetHTTP, "net-http", false, "receive events with the net/http server, which is slower than fastserver")
	flags.BoolVar(&cfg.UI, "ui", false, "serve the console under /console/ on -api-addr; requires the API token")
	flags.StringVar(&cfg.Dir, "dir", "data", "data directory; without -target, the tables are in its subfolder tables (e.g. /var/lib/forebay)")
	flags.BoolVar(&cfg.Extend, "extend", false, "add new columns of a sink to its table, unless the sink overrides this (docs/columns.md)")
	flags.StringVar(&cfg.Tables.PartitionBy, "partition-by", "", "date or timestamp column; new tables get a folder for each day, such as dt=2026-11-22 (default none; e.g. created_at)")
	flags.Int64Var(&cfg.Tables.MergeTo, "merge-to", 0, "size in bytes up to which the parts of a table are merged (default 134217728 for Parquet and Iceberg, no merging for CSV; e.g. 268435456)")
	duration.Var(flags, &cfg.Tables.KeepFor, "keep-for", 0, "age at which the parts of a table, or rows in a database, are removed, a duration (default never; e.g. 30d)")
	flags.BoolVar(&cfg.Tables.NoHeader, "no-header", false, "create CSV tables without a header line; such tables cannot get new columns")
	flags.BoolVar(&cfg.Tables.Gzip, "gzip", false, "compress the CSV files of tables to .csv.gz")
	flags.StringVar(&cfg.Source, "source", "", "id of an example source with two tables, created at startup (default none; e.g. web)")
	flags.IntVar(&cfg.Stream.ProjectID, "project-id", 1, "project id in addresses, a number (e.g. 7)")
	flags.IntVar(&cfg.Stream.BranchID, "branch-id", 1, "id of the default branch, a number (e.g. 12)")
	flags.IntVar(&cfg.Stream.MaxBodyBytes, "max-body-bytes", stream.DefaultMaxBodyBytes, "maximum size of a request body in bytes (e.g. 4194304)")
	flags.Func("trusted-proxies", "networks whose X-Forwarded-For is trusted, separated by commas (default none; e.g. 10.0.0.0/8,fd00::1)", func(s string) (err error) {
		cfg.Stream.TrustedProxies, err = parseNetworks(s)
		return err
	})
	flags.TextVar((*level)(&cfg.LogLevel), "log-level", level(slog.LevelInfo), "lowest level that is logged: debug, info, warn or error (e.g. debug)")
	flags.StringVar(&cfg.LogFormat, "log-format", "text", "text or json (e.g. json)")
	duration.Var(flags, &cfg.ShutdownTimeout, "shutdown-timeout", 30*time.Second, "how long a shutdown may take, a duration (e.g. 1m)")
}

// level is a level of the log whose error names the levels.
type level slog.Level

// MarshalText implements [encoding.TextMarshaler].
func (l level) MarshalText() ([]byte, error) { return slog.Level(l).MarshalText() }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *level) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return errors.New("must be debug, info, warn or error")
	}
	return nil
}

// Environment sets the flags that were not given from variables, such as -api-addr from FOREBAY_API_ADDR. It returns the names of all flags
// that are set now, and an error for each value that cannot be read.
func Environment(flags *flag.FlagSet, getenv func(string) string) (given map[string]bool, problems []error) {
	given = map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	flags.VisitAll(func(f *flag.Flag) {
		name := "FOREBAY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := getenv(name)
		if value == "" || given[f.Name] {
			return
		}
		given[f.Name] = true
		if err := f.Value.Set(value); err != nil {
			problems = append(problems, fmt.Errorf("invalid value %q of %s: %s", value, name, flagtext.Problem(f, err)))
			_ = f.Value.Set(f.DefValue) // one problem is enough
		}
	})
	return given, problems
}

// Check returns everything that is wrong with the options. Each problem is a [*FlagError].
func (cfg *Config) Check() (problems []error) {
	check := func(ok bool, flag, format string, args ...any) {
		if !ok {
			problems = append(problems, WrongValue(flag, format, args...))
		}
	}
	between := func(flag string, v, low, high int) {
		check(v >= low && v <= high, flag, "is %d, must be %d to %d", v, low, high)
	}
	check(cfg.LogFormat == "text" || cfg.LogFormat == "json", "log-format", "is %q, must be text or json", cfg.LogFormat)
	check(cfg.MaxConnections > 0, "max-connections", "is %d, must be positive", cfg.MaxConnections)
	check(cfg.Tables.MergeTo >= 0, "merge-to", "is %d, must not be negative", cfg.Tables.MergeTo)
	check(cfg.Tables.KeepFor >= 0, "keep-for", "is %s, must not be negative", cfg.Tables.KeepFor)
	check(cfg.ShutdownTimeout >= 0, "shutdown-timeout", "is %s, must not be negative", cfg.ShutdownTimeout)
	if cfg.Extend && cfg.Tables.NoHeader {
		problems = append(problems, WrongFlags("excludes -extend: a table without header lines cannot grow", "no-header", "extend"))
	}
	const unbounded = 1<<31 - 1
	between("project-id", cfg.Stream.ProjectID, 1, unbounded) // the options would take 0 for their default
	between("branch-id", cfg.Stream.BranchID, 1, unbounded)
	between("max-body-bytes", cfg.Stream.MaxBodyBytes, leastBody, stream.MaxBodyBytesLimit)
	check(cfg.Source == "" || catalog.NormalizeID(cfg.Source) == cfg.Source, "source", "is %q, must be an id such as %q", cfg.Source, "web")
	check(!cfg.UI || cfg.Token == "" || len(cfg.Token) >= leastToken, "token", "has %d bytes, the console of -ui needs at least %d", len(cfg.Token), leastToken)
	for _, one := range []struct{ flag, addr string }{{"addr", cfg.Addr}, {"api-addr", cfg.APIAddr}} {
		problems = append(problems, CheckAddress(one.flag, one.addr))
	}
	for _, one := range []struct{ flag, text string }{{"api-public-url", cfg.APIURL}, {"ingest-public-url", cfg.IngestURL}} {
		u, err := url.Parse(one.text)
		check(one.text == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"), one.flag,
			"is %q, must be an http or https address", one.text)
	}
	for _, network := range cfg.Stream.TrustedProxies {
		check(!network.Addr().Is4In6(), "trusted-proxies", "has %s, write it as an IPv4 network", network)
	}
	problems = append(problems, cfg.checkTuning()...)
	return slices.DeleteFunc(append(problems, checkAdmin(cfg.Admin)), func(err error) bool { return err == nil })
}

// leastBody is the least -max-body-bytes that package stream takes.
const leastBody = 100

// checkTuning looks at one option after the other, because the error of [buffer.Tuning.Validate] does not say which is wrong.
func (cfg *Config) checkTuning() (problems []error) {
	for _, one := range []struct {
		flag  string
		t     buffer.Tuning
		value any
	}{
		{"max-disk-bytes", buffer.Tuning{MaxDiskBytes: cfg.Tuning.MaxDiskBytes, MaxSinkBytes: 1 << 20}, cfg.Tuning.MaxDiskBytes},
		{"max-sink-bytes", buffer.Tuning{MaxSinkBytes: cfg.Tuning.MaxSinkBytes}, cfg.Tuning.MaxSinkBytes},
		{"min-import-interval", buffer.Tuning{MinImportInterval: cfg.Tuning.MinImportInterval}, cfg.Tuning.MinImportInterval},
	} {
		if err := one.t.Validate(); err != nil {
			_, text, _ := strings.Cut(err.Error(), ", ") // after the name of the field and its value
			problems = append(problems, WrongValue(one.flag, "is %v, %s", one.value, text))
		}
	}
	return problems
}

// CheckAddress returns a [*FlagError] if the value of a flag is no address to listen on.
func CheckAddress(flag, addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return WrongValue(flag, "is %q, must be HOST:PORT, such as 127.0.0.1:8080 or :8080", addr)
	}
	return nil
}

// parseNetworks reads networks that are separated by commas. An address stands for the network of it alone.
func parseNetworks(s string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if addr, err := netip.ParseAddr(part); err == nil && addr.Zone() == "" {
			networks = append(networks, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is neither a network nor an address", part)
		}
		networks = append(networks, network)
	}
	return networks, nil
}
