package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/stream"
)

type config struct {
	addr, apiAddr, dir string
	token              string
	source             string
	stream             stream.Options
	// apiURL and ingestURL begin the addresses in answers; empty: where this process listens.
	apiURL, ingestURL string
	logLevel          slog.Level
	logFormat         string
	shutdownTimeout   time.Duration
	admin             string
	maxConnections    int
	// maxDiskBytes and maxSinkBytes are set in buffer.Tuning.
	maxDiskBytes, maxSinkBytes int64
	// tables are the options of the folder tables, and extend the default of sinks: their tables grow.
	tables dir.TablesOptions
	extend bool
	// netHTTP serves events with net/http in place of package fastserver.
	netHTTP bool
}

func parseConfig(args []string, getenv func(string) string, usage io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller tells the error, and no usage hides it
	flags.StringVar(&cfg.addr, "addr", "127.0.0.1:8080", "address that events are sent to")
	flags.StringVar(&cfg.apiAddr, "api-addr", "127.0.0.1:8081", "address of the Stream API")
	flags.StringVar(&cfg.apiURL, "api-public-url", "", "what addresses of the API begin with in answers (default: http:// and the address it listens on)")
	flags.StringVar(&cfg.ingestURL, "ingest-public-url", "", "the same for addresses that events are sent to")
	flags.StringVar(&cfg.token, "token", "", "token of the API (default: made at the first start, kept in DIR/token)")
	flags.StringVar(&cfg.admin, "admin", "", "loopback address to take orders on, such as a checkpoint (default: none are taken)")
	flags.IntVar(&cfg.maxConnections, "max-connections", 20_000, "greatest number of connections for events at once; above it idle ones are closed")
	flags.Int64Var(&cfg.maxDiskBytes, "max-disk-bytes", 0, "greatest size of all rows that wait for their tables, with what the store takes; calls are refused above it (default: 16 GiB)")
	flags.Int64Var(&cfg.maxSinkBytes, "max-sink-bytes", 0, "the same for one sink (default: half of -max-disk-bytes)")
	flags.BoolVar(&cfg.netHTTP, "net-http", false, "take events with the server of net/http, which is slower (see package fastserver)")
	flags.StringVar(&cfg.dir, "dir", "data", "data directory; the tables are in the folder tables of it")
	flags.BoolVar(&cfg.extend, "extend", false, "let tables of new sinks grow with their columns, unless the API says otherwise (see docs/types.md)")
	flags.StringVar(&cfg.tables.PartitionBy, "partition-by", "", "column of type date or timestamp: new tables that have it get a folder for each day, such as dt=2026-11-22")
	flags.Int64Var(&cfg.tables.MergeTo, "merge-to", 0, "size in bytes up to which small parts of a table are merged in the background (default: parts stay as they are)")
	flags.DurationVar(&cfg.tables.KeepFor, "keep-for", 0, "age at which parts of tables are removed, for example 720h (default: never)")
	flags.BoolVar(&cfg.tables.NoHeader, "no-header", false, "make new tables without lines of column names in their parts; such tables cannot grow")
	flags.BoolVar(&cfg.tables.Gzip, "gzip", false, "keep the parts of tables compressed, as .csv.gz")
	flags.StringVar(&cfg.source, "source", "", "id of a source to create with two tables, to try the server without the API (default: none)")
	flags.IntVar(&cfg.stream.ProjectID, "project-id", 1, "project id in addresses")
	flags.IntVar(&cfg.stream.BranchID, "branch-id", 1, "id of the default branch")
	flags.IntVar(&cfg.stream.MaxBodyBytes, "max-body-bytes", stream.DefaultMaxBodyBytes, "greatest body of a request")
	flags.Func("trusted-proxies", "networks or addresses whose X-Forwarded-For is believed, e.g. 10.0.0.0/8,fd00::1", func(s string) (err error) {
		cfg.stream.TrustedProxies, err = parseNetworks(s)
		return err
	})
	flags.TextVar(&cfg.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.StringVar(&cfg.logFormat, "log-format", "text", "text or json")
	flags.DurationVar(&cfg.shutdownTimeout, "shutdown-timeout", 30*time.Second, "longest time to end in")

	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(usage, "Usage of server:")
			flags.SetOutput(usage)
			flags.PrintDefaults()
		}
		return cfg, err
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var problems []error
	flags.VisitAll(func(f *flag.Flag) {
		name := "FOREBAY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := getenv(name)
		if value == "" || given[f.Name] {
			return
		}
		if err := f.Value.Set(value); err != nil {
			problems = append(problems, fmt.Errorf("invalid value %q of %s: %w", value, name, err))
			_ = f.Value.Set(f.DefValue) // one problem is enough
		}
	})
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	check(flags.NArg() == 0, "unexpected argument %q", flags.Arg(0))
	check(cfg.logFormat == "text" || cfg.logFormat == "json", "-log-format is %q, must be text or json", cfg.logFormat)
	check(cfg.maxConnections > 0, "-max-connections is %d, must be positive", cfg.maxConnections)
	check(cfg.tables.MergeTo >= 0, "-merge-to is %d, must not be negative", cfg.tables.MergeTo)
	check(cfg.tables.KeepFor >= 0, "-keep-for is %s, must not be negative", cfg.tables.KeepFor)
	check(!cfg.extend || !cfg.tables.NoHeader, "-extend and -no-header exclude each other: a table without header lines cannot grow")
	check(cfg.stream.ProjectID != 0, "-project-id is 0, must be positive") // the options would take it for their default
	check(cfg.stream.BranchID != 0, "-branch-id is 0, must be positive")
	check(cfg.source == "" || catalog.NormalizeID(cfg.source) == cfg.source, "-source is %q, must be an id such as %q", cfg.source, "web")
	problems = append(problems, checkAdmin(cfg.admin), apiOptions(cfg, "http://127.0.0.1", "http://127.0.0.1", "any").Validate())
	return cfg, errors.Join(problems...)
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
