package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/forebay/forebay/drivers/postgres/internal/pgtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == clientCommand { // the load generator
		if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Both commands run to their end, and count the rows that they have stored.
func TestRun(t *testing.T) {
	for _, args := range [][]string{{"-rows", "3000", "-rounds", "1", "-json"}, {pipelineCommand, "-duration", "100ms", "-rounds", "1", "-json"}} {
		var out bytes.Buffer
		err := run(t.Context(), args, &out)
		if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		var report struct {
			Scenario string  `json:"scenario"`
			OfLoader float64 `json:"of_loader"`
			OfInsert float64 `json:"of_inserts"`
		}
		if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Scenario == "" || report.OfLoader+report.OfInsert <= 0 {
			t.Errorf("%q: %+v, %v: %s", args, report, err, &out)
		}
	}
}
