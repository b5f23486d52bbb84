// Package gziptest decompresses the project's gzip data in tests, with a reader that shares nothing with its writers.
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
