package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// Both commands run to their end, and count the rows that they have stored. The import needs the program sqlite3.
func TestRun(t *testing.T) {
	drivertest.Commands(t, run, exec.ErrNotFound,
		[]string{"pipeline", "-duration", "100ms", "-outage", "200ms", "-rounds", "1"},
		[]string{"-rows", "2000", "-rounds", "1", "-dir", t.TempDir()})
}
