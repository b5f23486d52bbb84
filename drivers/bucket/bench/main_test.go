package main

import (
	"strings"
	"testing"
)

// Every scenario runs to its end, and finds its stored rows.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-rows", "2000", "-rounds", "1", "-dir", t.TempDir()}, &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("got %d lines, want 2:\n%s", n, out.String())
	}
}
