package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/duration"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
	"github.com/forebay/forebay/trigger"
)

const otlpHelp = `
forebay otlp keeps logs, metrics and traces of one day in tables. Without -target they are Parquet
files.

  forebay otlp  then query the files: duckdb -init data/views.sql
  forebay otlp -keep-for 7d -dir /var/lib/forebay
  forebay otlp -target duckdb:telemetry.db
  forebay otlp -target postgres://me@db/telemetry -otlp-grpc 0.0.0.0:4317

It prints the environment variables for an exporter. docs/telemetry.md describes the tables, SQL
queries, and the configuration of a Collector.
`

// telemetryFlags are the flags of the verb otlp in addition to the flags of serve.
type telemetryFlags struct {
	secret string
	every  time.Duration
}

const (
	// telemetrySource is the source of the verb otlp.
	telemetrySource = "otlp"
	// secretFile and viewsFile are in the data directory.
	secretFile, viewsFile = "otlp-secret", "views.sql"
	dayOfTelemetry        = 24 * time.Hour
	// receivedAt is a column of each table, by which databases remove old rows, because the clock of a sender may be wrong.
	receivedAt = "ReceivedAt"
)

func (f *telemetryFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.secret, "otlp-secret", "", "bearer token of senders, at least 16 characters (default made at the first start, in DIR/otlp-secret; e.g. 3zn1qcr5kd0vw8ta)")
	duration.Var(flags, &f.every, "every", 10*time.Second, "longest time from a response to the rows in the table, a duration of 1s or more (e.g. 30s)")
	flags.Lookup("keep-for").Usage = "age since arrival at which rows are removed, a duration, 0 for never (default 24h, never in a bucket or with Iceberg; e.g. 7d)"
	flags.Lookup("target").Usage = "where the tables are; \"forebay help targets\" lists the forms (default parquet:DIR/telemetry; e.g. duckdb:telemetry.db)"
}

// complete gives the flags that are not given the defaults of the verb. The error joins everything that is wrong.
func (f *telemetryFlags) complete(cfg *serveConfig, given map[string]bool) error {
	var problems []error
	for _, name := range []string{"config", "source", "node"} {
		if given[name] {
			problems = append(problems, fmt.Errorf("-%s is a flag of serve: otlp has its source, with a table for each signal", name))
		}
	}
	if f.every < time.Second {
		problems = append(problems, fmt.Errorf("-every is %s, must be 1s or more", f.every))
	}
	if f.secret != "" && len(f.secret) < 16 {
		problems = append(problems, errors.New("-otlp-secret must have at least 16 characters"))
	}
	if cfg.target == "" {
		cfg.target = "parquet:" + filepath.Join(cfg.Dir, "telemetry")
	}
	cfg.options.keepBy = []string{receivedAt}
	cfg.Tables.EmptyPart = true // for the views
	cfg.telemetry = []otlpflat.ViewOptions{{Logs: "logs", Traces: "traces", Metrics: "metrics", ReceivedAt: receivedAt}}
	cfg.needsOTLP, cfg.Optional["addr"] = true, !given["addr"]
	cfg.options.bloom = []string{"TraceId"}
	cfg.options.indexes = [][]string{{"TraceId", "Timestamp"}, {"Timestamp"}, {"MetricName", "TimeUnix"}}
	cfg.options.orderBy = []string{"ServiceName", "MetricName", "Timestamp", "TimeUnix"}
	_, bucket := cutPrefix(strings.TrimPrefix(cfg.target, "parquet:"), bucketSchemes())
	if k, _, err := cfg.kindOf(); err == nil && k.ages && !bucket && !given["keep-for"] { // the check of the places returns the error
		cfg.Tables.KeepFor = dayOfTelemetry
	}
	if !given["min-import-interval"] {
		cfg.Tuning.MinImportInterval = max(f.every, time.Second)
	}
	return errors.Join(problems...)
}

// source has a table for each signal.
func (f *telemetryFlags) source(secret string) forebay.Source {
	interval := trigger.Conditions{Interval: f.every}
	src := forebay.Source{
		ID: telemetrySource, Type: forebay.OTLP, Secret: secret,
		Settings: forebay.Settings{Upload: trigger.Conditions{Interval: max(f.every/2, time.Second)}, Import: interval},
	}
	for _, s := range []struct {
		signal  forebay.Signal
		columns mapping.Columns
	}{
		{forebay.SignalLogs, otlpflat.LogsTable()}, {forebay.SignalMetrics, otlpflat.MetricsTable()}, {forebay.SignalTraces, otlpflat.TracesTable()},
	} {
		src.Sinks = append(src.Sinks, forebay.Sink{
			ID: string(s.signal), AllowedSignals: []forebay.Signal{s.signal},
			Table: forebay.Table{
				ID: string(s.signal), Columns: append(s.columns, mapping.Datetime(receivedAt, mapping.DataType(datatype.Timestamp))), Extend: true,
			},
		})
	}
	return src
}

// addViews adds the tables of a source of the file that have columns of otlpflat, of each signal the first one.
func (cfg *serveConfig) addViews(keys sourceKeys) {
	var o otlpflat.ViewOptions
	for _, sink := range keys.Sinks {
		switch {
		case sink.Preset == "otel_logs" && o.Logs == "":
			o.Logs = sink.Table
		case sink.Preset == "otel_metrics" && o.Metrics == "":
			o.Metrics = sink.Table
		case sink.Preset == "otel_traces" && o.Traces == "":
			o.Traces = sink.Table
		}
	}
	if o.Logs == "" && o.Metrics == "" && o.Traces == "" {
		return
	}
	if len(cfg.telemetry) > 0 { // the names of the first source's views are taken
		o.Prefix = "otel_" + keys.ID + "_"
	}
	cfg.telemetry = append(cfg.telemetry, o)
}

// views returns the statements that make the views of a target, and how to use them; "" for a target that has none, and without telemetry.
func (cfg *serveConfig) views(file string) (sql, use string, err error) {
	var of otlpflat.ViewOptions
	var statements []string
	kind, rest, _ := strings.Cut(cmp.Or(cfg.target, "dir:"+filepath.Join(cfg.Dir, "tables")), ":")
	switch {
	case len(cfg.telemetry) == 0, kind == "dir" && cfg.tables.NoHeader:
		return "", "", nil
	case kind == "parquet" && strings.Contains(rest, "://"):
		of.Dialect, of.Folder = otlpflat.DuckDB, inDuckDB(rest)
		use = fmt.Sprintf("in duckdb, CREATE SECRET for the bucket, then .read '%s'", file)
	case kind == "parquet", kind == "dir":
		folder, err := filepath.Abs(rest)
		if err != nil {
			return "", "", err
		}
		of.Dialect, use = otlpflat.DuckDB, fmt.Sprintf("duckdb -init '%s'", file)
		if kind == "parquet" {
			of.Folder = folder
		} else {
			of.From = func(table string) string { return readCSV(filepath.Join(folder, table)) }
		}
	case kind == "iceberg":
		of.Dialect, use = otlpflat.DuckDB, fmt.Sprintf("duckdb -init '%s'", file)
		var keys icebergKeys
		cfg.options.read(&keys) // which was checked
		if isCatalogAddress(rest) {
			use = fmt.Sprintf("in duckdb, CREATE SECRET for the catalog, then .read '%s'", file)
			statements, of.From, err = fromCatalog(rest, keys.Namespace)
		} else {
			statements, of.From, err = cfg.fromIceberg(rest, cmp.Or(keys.Namespace, namespace))
		}
		if err != nil {
			return "", "", err
		}
	case kind == "duckdb":
		of.Dialect, use = otlpflat.DuckDB, fmt.Sprintf("duckdb -init '%s' '%s', while the server is stopped", file, rest)
	case kind == "sqlite":
		of.Dialect, use = otlpflat.SQLite, fmt.Sprintf("sqlite3 -init '%s' '%s'", file, rest)
	case kind == "postgres" || kind == "postgresql":
		var keys postgresKeys
		cfg.options.read(&keys) // which was checked
		of.Schema = keys.Schema
		of.Dialect, use = otlpflat.PostgreSQL, fmt.Sprintf("psql -f '%s'", file)
	case kind == "clickhouse" || kind == "mysql":
		of.Schema = databaseOf(rest)
		of.Dialect, use = otlpflat.ClickHouse, fmt.Sprintf("clickhouse-client --queries-file '%s'", file)
		if kind == "mysql" {
			of.Dialect, use = otlpflat.MySQL, fmt.Sprintf("mysql < '%s'", file)
		}
	default:
		return "", "", nil
	}
	if of.Dialect == otlpflat.SQLite { // the server writes meanwhile
		statements = append(statements, "PRAGMA busy_timeout = 10000")
	}
	for _, o := range cfg.telemetry {
		o.Dialect, o.Folder, o.Schema, o.From = of.Dialect, of.Folder, of.Schema, of.From
		more, err := otlpflat.Views(o)
		if err != nil {
			return "", "", err
		}
		statements = append(statements, more...)
	}
	return strings.Join(append(statements, ""), ";\n\n"), use, nil
}

// literal returns a text as SQL.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// identifier returns a name as SQL.
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// inDuckDB is the place in a bucket as DuckDB writes it.
func inDuckDB(url string) string {
	place, _, _ := strings.Cut(url, "?")
	return strings.Replace(strings.TrimSuffix(place, "/"), "azblob://", "az://", 1)
}

// readCSV reads the parts of a table of package dir in DuckDB.
func readCSV(folder string) string {
	return "read_csv(" + literal(folder+"/**/*.csv*") + `, header = true, all_varchar = true, union_by_name = true, hive_partitioning = false,
    delim = ',', quote = '"', escape = '"', allow_quoted_nulls = false)`
}

// lake is the name of an Iceberg catalog in DuckDB.
const lake = "forebay_lake"

// fromIceberg reads the snapshots that a catalog in a folder names when DuckDB runs the first statements. The newest file of a table's metadata need
// not be its current one, because a program that lost a race, or was killed, leaves a file too.
func (cfg *serveConfig) fromIceberg(folder, namespace string) (first []string, from func(table string) string, err error) {
	if folder, err = filepath.Abs(folder); err != nil {
		return nil, nil, err
	}
	first = []string{"ATTACH IF NOT EXISTS " + literal(filepath.Join(folder, "catalog.db")) + " AS " + lake + " (TYPE sqlite, READ_ONLY)"}
	for _, o := range cfg.telemetry {
		for _, table := range []string{o.Logs, o.Traces, o.Metrics} {
			if table != "" {
				first = append(first, "SET VARIABLE "+identifier(table)+" = (SELECT metadata_location FROM "+lake+".iceberg_tables\n  WHERE table_namespace = "+
					literal(namespace)+" AND table_name = "+literal(table)+")")
			}
		}
	}
	return first, func(table string) string { return "iceberg_scan(getvariable(" + literal(table) + "))" }, nil
}

// fromCatalog reads the tables of a REST catalog.
func fromCatalog(address, ns string) (first []string, from func(table string) string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	ns = cmp.Or(ns, u.Query().Get("namespace"), namespace)
	warehouse := u.Query().Get("warehouse")
	u.RawQuery, u.Fragment = "", ""
	return []string{"ATTACH IF NOT EXISTS " + literal(warehouse) + " AS " + lake + " (TYPE iceberg, ENDPOINT " + literal(u.String()) + ")"},
		func(table string) string { return lake + "." + identifier(ns) + "." + identifier(table) }, nil
}

// databaseOf returns the database of the address of a server, whose kind is cut off. The address may name several hosts.
func databaseOf(address string) string {
	address, _, _ = strings.Cut(strings.TrimPrefix(address, "//"), "?")
	_, name, _ := strings.Cut(address, "/")
	if decoded, err := url.PathUnescape(name); err == nil {
		return decoded
	}
	return name
}

// writeViews writes the file with the views, if there are any, and returns how to use it.
func (cfg *serveConfig) writeViews() (use string, err error) {
	file := filepath.Join(cfg.Dir, viewsFile)
	sql, use, err := cfg.views(file)
	if err != nil || sql == "" {
		return "", err
	}
	if err := keep.Folder("dir", cfg.Dir, 0o755); err != nil {
		return "", err
	}
	return use, keep.Write(file, []byte(sql))
}

// refreshViews is writeViews, and logs the outcome. The server needs no views, so it starts without them, for example on a full disk.
func (cfg *serveConfig) refreshViews(logger *slog.Logger) {
	use, err := cfg.writeViews()
	switch {
	case err != nil:
		logger.Warn("views of telemetry not written", "file", filepath.Join(cfg.Dir, viewsFile), "cause", err, "next", "check the target")
	case use != "":
		logger.Info("views of telemetry written", "use", use)
	}
}

func (p process) otlp(ctx context.Context, args []string) int {
	var f telemetryFlags
	cfg, err := p.parse("otlp", args, verbFlags{register: f.register, complete: f.complete})
	if err != nil {
		return p.end("otlp", err, wrongUsage)
	}
	return p.end("otlp", p.serveTelemetry(ctx, args, cfg, &f), failed)
}

func (p process) serveTelemetry(ctx context.Context, args []string, cfg *serveConfig, f *telemetryFlags) error {
	if err := keep.Folder("dir", cfg.Dir, 0o755); err != nil {
		return err
	}
	secret := f.secret
	if secret == "" {
		made, err := keep.Secret(filepath.Join(cfg.Dir, secretFile))
		if err != nil {
			return err
		}
		secret = made
	}
	_, use, err := cfg.views(filepath.Join(cfg.Dir, viewsFile)) // which serveConfig writes
	if err != nil {
		return err
	}
	cfg.sources = []forebay.Source{f.source(secret)}
	usage := &afterLine{out: p.stdout, text: func(ready string) string {
		var b strings.Builder
		value := "$(cat '" + filepath.Join(cfg.Dir, secretFile) + "')"
		if f.secret != "" {
			value = "SECRET"
		}
		grpc, http := addressOf(ready, "otlp-grpc"), addressOf(ready, "otlp-http")
		b.WriteString(cfg.ports(ready))
		fmt.Fprintf(&b, "\nAn exporter needs:\n\n  export OTEL_EXPORTER_OTLP_ENDPOINT=http://%s\n", cmp.Or(http, grpc))
		if http == "" {
			b.WriteString("  export OTEL_EXPORTER_OTLP_PROTOCOL=grpc\n")
		} else {
			b.WriteString("  export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\n")
		}
		fmt.Fprintf(&b, "  export OTEL_EXPORTER_OTLP_HEADERS=\"authorization=Bearer%%20%s\"\n", value)
		if use != "" {
			fmt.Fprintf(&b, "\nSQL: %s\n", use)
		}
		return b.String()
	}}
	serving := p
	serving.stdout = usage
	return serving.serveConfig(ctx, args, cfg)
}

// ports lists the ports that the line "ready" has, and the ports of OTLP that are not open. It names the default ports that are in use.
func (cfg *serveConfig) ports(ready string) string {
	var b strings.Builder
	b.WriteString("\nPorts:\n\n")
	for _, port := range []struct{ name, flag, wanted string }{
		{"OTLP over gRPC", "otlp-grpc", cfg.otlpGRPC}, {"OTLP over HTTP", "otlp-http", cfg.otlpHTTP}, {"events over HTTP", "addr", cfg.Addr}, {"Stream API", "api-addr", cfg.APIAddr},
	} {
		inReady := map[string]string{"addr": "ingest", "api-addr": "api"}[port.flag]
		switch open := addressOf(ready, cmp.Or(inReady, port.flag)); {
		case open != "" && cfg.Optional[port.flag] && open != port.wanted:
			fmt.Fprintf(&b, "  %-17s%s, because %s is in use: choose an address with -%s\n", port.name, open, port.wanted, port.flag)
		case open != "":
			fmt.Fprintf(&b, "  %-17s%s\n", port.name, open)
		case port.wanted != "":
			fmt.Fprintf(&b, "  %-17snot open: %s is in use, choose another address with -%s\n", port.name, port.wanted, port.flag)
		}
	}
	return b.String()
}

// addressOf returns an address of the line "ready".
func addressOf(ready, name string) string {
	for field := range strings.FieldsSeq(ready) {
		if addr, ok := strings.CutPrefix(field, name+"="); ok {
			return addr
		}
	}
	return ""
}

// afterLine writes a text after the first line that passes.
type afterLine struct {
	out  io.Writer
	text func(line string) string
	done bool
}

func (w *afterLine) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	if err == nil && !w.done {
		w.done = true
		_, err = io.WriteString(w.out, w.text(string(p)))
	}
	return n, err
}
