package main

import (
	"os"
	"testing"

	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// Both commands run to their end, and count the rows that they have stored.
func TestRun(t *testing.T) {
	drivertest.Commands(t, run, pgtest.ErrMissing,
		[]string{"-rows", "3000", "-rounds", "1"},
		[]string{"pipeline", "-duration", "100ms", "-outage", "200ms", "-rounds", "1"})
}
