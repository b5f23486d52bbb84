//go:build !cgo

package main

import "github.com/forebay/forebay/internal/program/server"

func duckdbTarget() targetKind {
	k := duckdbKind()
	k.prepare = func(string, targetFlags) (opener, []error) {
		return nil, []error{server.WrongFlags("needs DuckDB, and this program was built without it, because that needs a C compiler: build it with CGO_ENABLED=1", "target")}
	}
	return k
}
