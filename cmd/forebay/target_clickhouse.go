package main

import (
	"context"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/clickhouse"
	"github.com/forebay/forebay/internal/program/store"
)

func clickhouseTarget() targetKind {
	const prefix = "clickhouse://"
	return targetKind{
		prefixes: []string{prefix}, form: "clickhouse://USER:PASSWORD@HOST:PORT/DATABASE", summary: "a database of ClickHouse", limits: new(clickhouse.Target),
		keys: clickhouseKeys{},
		prepare: func(rest string, f targetFlags) (opener, []error) {
			var keys clickhouseKeys
			problems := append(f.refuse("is for tables in folders: leave it out, or use partitionBy and ttl of -target-options"), f.options.read(&keys)...)
			if keys.OrderBy == nil {
				keys.OrderBy = f.options.orderBy
			}
			opts := clickhouse.Options{
				OrderBy: keys.OrderBy, PartitionBy: keys.PartitionBy, TTL: keys.TTL, Engine: keys.Engine, Cluster: keys.Cluster, NativeJSON: keys.NativeJSON,
				BlockBytes: int64(keys.BlockBytes), Window: keys.Window, LazySync: keys.LazySync,
			}
			if keys.TokenFile != "" {
				opts.Token = func(context.Context) (string, error) {
					token, err := os.ReadFile(keys.TokenFile)
					return strings.TrimSpace(string(token)), err
				}
			}
			return func() (*store.Store, error) { return openClickHouse(prefix+rest, opts) },
				slices.Concat(problems, f.explain(clickhouse.Validate(prefix+rest, opts), &keys, false))
		},
	}
}

// clickhouseKeys are the options of a target in ClickHouse.
type clickhouseKeys struct {
	OrderBy     []string `json:"orderBy" doc:"columns of the ordering key of new tables, such as [tenant, at]. Columns that a table lacks are ignored. Default: the first required column of type 'timestamp' or 'date'"`
	PartitionBy string   `json:"partitionBy" doc:"SQL expression for the partition of a row in new tables, such as toYYYYMM(at)"`
	TTL         string   `json:"ttl" doc:"SQL expression for the time at which rows of new tables expire, such as at + INTERVAL 90 DAY. It may use only required columns"`
	Engine      string   `json:"engine" doc:"engine of new tables, such as ReplicatedMergeTree; default: MergeTree"`
	Cluster     string   `json:"cluster" doc:"name of the ClickHouse cluster. Tables are created and changed on all of its servers"`
	NativeJSON  bool     `json:"nativeJson" doc:"if true, 'json' columns are created with the type 'JSON', which reorders keys and drops null values. Default: 'String'"`
	BlockBytes  byteSize `json:"blockBytes" doc:"uncompressed size of the rows that become visible together. The server keeps them in memory until they are stored. Default: 256MB"`
	Window      int      `json:"window" doc:"number of recent blocks that a table without replication remembers, to ignore repeated blocks. Default: 10000"`
	LazySync    bool     `json:"lazySync" doc:"if true, fsync_after_insert is not set, so a power failure may lose imports from the last few seconds"`
	TokenFile   string   `json:"tokenFile" doc:"file with a JSON Web Token, which is read for each request. With this key, omit the user from the address"`
}

// openClickHouse opens the target, which is also the reader.
func openClickHouse(address string, opts clickhouse.Options) (*store.Store, error) {
	target, err := clickhouse.Open(address, opts)
	if err != nil {
		return nil, err
	}
	return &store.Store{
		Target: target, Tables: clickhouseReader{target},
		Hint: "clickhouse-client --host HOST --user USER --password --database DATABASE -q 'SELECT country, count(), sum(total) FROM `in.c-shop.orders` GROUP BY 1'",
		Closer: func() error {
			target.Close()
			return nil
		},
	}, nil
}

// clickhouseReader reads tables through the connections of the target.
type clickhouseReader struct{ target *clickhouse.Target }

// Exists reports whether the database has a table.
func (r clickhouseReader) Exists(ctx context.Context, table string) (bool, error) {
	columns, err := r.target.Columns(ctx, table)
	return len(columns) > 0, err
}

// Columns implements [store.Reader].
func (r clickhouseReader) Columns(table string) ([]datatype.Column, error) {
	return r.target.Columns(context.Background(), table)
}

// Rows implements [store.Reader].
func (r clickhouseReader) Rows(table string) iter.Seq2[[]string, error] {
	return r.target.Rows(context.Background(), table)
}
