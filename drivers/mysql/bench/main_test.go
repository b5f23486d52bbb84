package main

import (
	"os"
	"testing"

	"github.com/forebay/forebay/drivers/mysql/mysqltest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// The command runs to its end, and counts the rows that it has stored.
func TestRun(t *testing.T) {
	drivertest.Commands(t, run, mysqltest.ErrMissing,
		[]string{"-rows", "3000", "-rounds", "1"})
}
