package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// Both commands run to their end, and count the rows that they have stored.
func TestRun(t *testing.T) {
	for name, args := range map[string][]string{
		"import":   {"-rows", "2000", "-rounds", "1", "-dir", t.TempDir()},
		"pipeline": {"pipeline", "-duration", "100ms", "-outage", "200ms", "-rounds", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("sqlite3"); err != nil && name == "import" {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip("the program sqlite3 is not installed")
			}
			var out strings.Builder
			if err := run(t.Context(), args, &out); err != nil {
				t.Fatal(err)
			}
			t.Log(out.String())
		})
	}
}
