//go:build !cgo

package main

import (
	"errors"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/program/store"
)

func duckdbTarget() targetKind {
	k := duckdbKind()
	k.open = func(string, dir.TablesOptions) (*store.Store, error) {
		return nil, errors.New("-target: this program was built without DuckDB, which needs a C compiler: build it with CGO_ENABLED=1")
	}
	return k
}
