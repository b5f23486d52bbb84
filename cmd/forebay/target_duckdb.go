//go:build forebay_duckdb && cgo

package main

import (
	"fmt"
	"slices"

	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/program/store"
)

// duckdbTarget reads through the connection of the target, because one process at a time can open the file.
func duckdbTarget() targetKind {
	k := duckdbKind()
	k.limits = new(duckdb.Target)
	k.prepare = func(rest string, f targetFlags) (opener, []error) {
		var keys duckdbKeys
		problems := append(f.forFolders(), f.options.read(&keys)...)
		opts := duckdb.Options{MemoryLimit: int64(keys.MemoryLimit), Threads: keys.Threads, KeepIDs: keys.KeepIDs}
		var wrong []error
		opts.KeepFor, opts.KeepBy, wrong = f.retention(keys.KeepBy)
		return func() (*store.Store, error) {
			target, err := duckdb.Open(rest, opts)
			if err != nil {
				return nil, err
			}
			return &store.Store{
				Target: target, Tables: sqlReader{target.DB(), `SELECT count(*) > 0 FROM information_schema.tables WHERE lower(table_name) = lower(?)`}, Closer: target.Close,
				Hint: fmt.Sprintf(`duckdb '%s' -c 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`, rest),
			}, nil
		}, slices.Concat(problems, wrong, f.explain(duckdb.Validate(rest, opts), &keys, true))
	}
	return k
}
