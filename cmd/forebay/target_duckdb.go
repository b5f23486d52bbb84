//go:build cgo

package main

import (
	"fmt"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/program/store"
)

// duckdbTarget reads through the connection of the target, because one process at a time can open the file.
func duckdbTarget() targetKind {
	k := duckdbKind()
	k.limits = new(duckdb.Target)
	k.open = func(rest string, _ dir.TablesOptions) (*store.Store, error) {
		target, err := duckdb.Open(rest, duckdb.Options{})
		if err != nil {
			return nil, fmt.Errorf("-target: %w", err)
		}
		return &store.Store{
			Target: target, Tables: sqlReader{target.DB()}, Closer: target.Close,
			Hint: fmt.Sprintf(`duckdb '%s' -c 'SELECT country, count(*), sum(total) FROM "in.c-shop.orders" GROUP BY 1'`, rest),
		}, nil
	}
	return k
}
