//go:build forebay_iceberg

package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/program/server"
	"github.com/forebay/forebay/internal/program/store"
)

func icebergTarget() targetKind {
	k := icebergKind()
	k.limits = new(iceberg.Target)
	k.prepare = func(rest string, f targetFlags) (opener, []error) {
		problems := f.refuse("is for tables in folders: of these flags, -target iceberg: takes -partition-by and -merge-to only, so leave it out", "partition-by", "merge-to")
		var keys icebergKeys
		problems = append(problems, f.options.read(&keys)...)
		opts := iceberg.Options{
			Namespace: cmp.Or(keys.Namespace, namespace), PartitionBy: f.PartitionBy, MergeTo: max(f.MergeTo, 0), Bloom: f.bloomOr(keys.Bloom),
			KeepSnapshots: keys.KeepSnapshots, KeepOrphans: keys.KeepOrphans, KeepIDs: keys.KeepIDs,
		}
		if isCatalogAddress(rest) {
			open, err := prepareIcebergCatalog(rest, opts)
			if _, query, _ := strings.Cut(rest, "?"); keys.Namespace != "" && strings.Contains("&"+query, "&namespace=") {
				problems = append(problems, f.options.wrong("namespace", "is in the address of the catalog too: leave out one of them")...)
			}
			return open, append(problems, f.explain(err, &keys, false)...)
		}
		if scheme, _, ok := strings.Cut(rest, "://"); ok {
			return nil, append(problems, server.WrongValue("target",
				"iceberg: takes no %s:// address: write a folder, or iceberg:https://CATALOG?warehouse=NAME for the REST catalog of tables in a bucket", scheme))
		}
		return func() (*store.Store, error) { return openIcebergFolder(rest, opts) }, problems
	}
	return k
}

func openIcebergFolder(folder string, opts iceberg.Options) (*store.Store, error) {
	target, err := iceberg.Open(folder, opts)
	if err != nil {
		return nil, err
	}
	return &store.Store{
		Target: target, Tables: icebergReader{target.Target, opts.Namespace}, Closer: target.Close,
		Hint: fmt.Sprintf(`duckdb -c "INSTALL iceberg; LOAD iceberg; SELECT country, count(*) FROM iceberg_scan('$(sqlite3 '%s/catalog.db' `+
			`"SELECT metadata_location FROM iceberg_tables WHERE table_name = 'in.c-shop.orders'")') GROUP BY 1"`, folder),
	}, nil
}

// icebergReader reads the current snapshots of tables.
type icebergReader struct {
	target    *iceberg.Target
	namespace string
}

func (r icebergReader) load(name string) (*table.Table, error) {
	return r.target.Catalog().LoadTable(context.Background(), table.Identifier{r.namespace, name})
}

// Columns implements [store.Reader].
func (r icebergReader) Columns(name string) ([]datatype.Column, error) {
	t, err := r.load(name)
	if err != nil {
		return nil, err
	}
	var columns []datatype.Column
	for _, f := range t.Schema().Fields() {
		columns = append(columns, datatype.Column{Name: f.Name})
	}
	return columns, nil
}

// Rows implements [store.Reader].
func (r icebergReader) Rows(name string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		t, err := r.load(name)
		if err != nil {
			yield(nil, err)
			return
		}
		_, batches, err := t.Scan().ToArrowRecords(context.Background())
		if err != nil {
			yield(nil, err)
			return
		}
		for batch, err := range batches {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range int(batch.NumRows()) {
				row := make([]string, batch.NumCols())
				for c, column := range batch.Columns() {
					if !column.IsNull(i) {
						row[c] = column.ValueStr(i)
					}
				}
				if !yield(row, nil) {
					batch.Release()
					return
				}
			}
			batch.Release()
		}
	}
}
