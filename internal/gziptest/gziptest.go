// Package gziptest reads in tests what the project has compressed, by a reader that shares nothing with its writers.
package gziptest

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
)

// Read returns the text of one or more members. It ends the test when they are not whole.
func Read(t testing.TB, members []byte) []byte {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(members))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
