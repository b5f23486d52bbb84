package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) { os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run)) }

// Both commands run to their end, and count the rows that they have stored.
func TestRun(t *testing.T) {
	for _, args := range [][]string{
		{"-rows", "3000", "-rounds", "1", "-json"},
		{"pipeline", "-duration", "100ms", "-outage", "200ms", "-rounds", "1", "-json"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), args, &out)
		if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("%q: got %v, want no error", args, err)
		}
		var report struct{ Scenario string }
		if err := json.Unmarshal(bytes.SplitAfter(out.Bytes(), []byte("\n"))[0], &report); err != nil || report.Scenario == "" {
			t.Errorf("%q: got %+v, %v: %s, want no error and report.Scenario != \"\"", args, report, err, &out)
		}
	}
}
