//go:build cgo

package main

import (
	"fmt"

	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/program/store"
)

// duckdbTarget reads through the connection of the target, because one process at a time can open the file.
func duckdbTarget() targetKind {
	k := duckdbKind()
	k.limits = new(duckdb.Target)
	k.prepare = func(rest string, o tableFlags) (opener, []error) {
		opts := duckdb.Options{}
		return func() (*store.Store, error) {
			target, err := duckdb.Open(rest, opts)
			if err != nil {
				return nil, err
			}
			return &store.Store{
				Target: target, Tables: sqlReader{target.DB()}, Closer: target.Close,
				Hint: fmt.Sprintf(`duckdb '%s' -c 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`, rest),
			}, nil
		}, append(o.forFolders(), targetProblems(duckdb.Validate(rest, opts), true)...)
	}
	return k
}
