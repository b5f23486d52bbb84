package main

import (
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// Both commands run to their end, and count the rows that they have stored.
func TestRun(t *testing.T) {
	for _, args := range [][]string{
		{"-rows", "2000", "-rounds", "1", "-dir", t.TempDir()},
		{"pipeline", "-duration", "100ms", "-rounds", "1"},
	} {
		var out strings.Builder
		if err := run(t.Context(), args, &out); err != nil {
			t.Fatalf("%q: got %v, want no error", args, err)
		}
		t.Log(out.String())
	}
}
