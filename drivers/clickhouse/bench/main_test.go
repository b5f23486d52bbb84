package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/pipebench"
)

func TestMain(m *testing.M) {
	clickhousetest.Main()
	if _, ok := pipebench.Address(); ok {
		os.Exit(pipebench.Main(nil, os.Stdout, os.Stderr, run))
	}
	os.Exit(pipebench.Process(os.Stdout, os.Stderr, m.Run))
}

// Both commands succeed, and count the rows that they have stored.
func TestRun(t *testing.T) {
	for _, args := range [][]string{
		{"-rows", "3000", "-rounds", "1", "-json"},
		{"pipeline", "-duration", "500ms", "-outage", "200ms", "-rounds", "1", "-kills", "2", "-json"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), args, &out)
		if errors.Is(err, clickhousetest.ErrMissing) && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("%q: got %v, want no error", args, err)
		}
		for lines := json.NewDecoder(&out); lines.More(); {
			var report struct {
				Scenario string
				Ways     map[string]struct{ Confirmed, Lost, Doubled float64 }
			}
			if err := lines.Decode(&report); err != nil || report.Scenario == "" {
				t.Fatalf("%q: got %+v, %v, want no error and report.Scenario != \"\"", args, report, err)
			}
			if report.Scenario != "pipeline/clickhouse/kills" {
				continue
			}
			for _, way := range []string{"engine", "inserts", "in memory"} {
				m := report.Ways[way]
				if lost := m.Lost > 0; m.Confirmed == 0 || m.Doubled > 0 || lost != (way == "in memory") {
					t.Errorf("%s after kills: got %+v, want confirmed rows, none doubled, and lost ones only of a batcher in memory", way, m)
				}
			}
		}
	}
}
