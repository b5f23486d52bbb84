//go:build !forebay_duckdb || !cgo

package main

import "github.com/forebay/forebay/internal/program/server"

// duckdbTarget refuses every text. DuckDB needs a C compiler and makes the program twice as large.
func duckdbTarget() targetKind {
	k := duckdbKind()
	k.missing = "forebay_duckdb"
	k.prepare = func(string, targetFlags) (opener, []error) {
		return nil, []error{server.WrongFlags("needs DuckDB, and this program was built without it: build it with a C compiler and CGO_ENABLED=1 go build -tags forebay_duckdb", "target")}
	}
	return k
}
