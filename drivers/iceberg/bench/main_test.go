package main

import (
	"os"
	"testing"

	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// Both commands run to their end, and count the rows that they have stored.
func TestRun(t *testing.T) {
	drivertest.Commands(t, run, nil,
		[]string{"-rows", "2000", "-rounds", "1", "-dir", t.TempDir()},
		[]string{"pipeline", "-duration", "100ms", "-rounds", "1"})
}
