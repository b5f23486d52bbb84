//go:build !forebay_iceberg

package main

import "github.com/forebay/forebay/internal/program/server"

// icebergTarget refuses every text. Iceberg adds two fifths to the program.
func icebergTarget() targetKind {
	k := icebergKind()
	k.missing = "forebay_iceberg"
	k.prepare = func(string, targetFlags) (opener, []error) {
		return nil, []error{server.WrongFlags("needs Iceberg, and this program was built without it: build it with go build -tags forebay_iceberg", "target")}
	}
	return k
}
