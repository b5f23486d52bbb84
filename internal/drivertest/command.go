package drivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/forebay/forebay/internal/servertest"
)

// Commands checks that commands of a benchmark run to their end, and report a scenario in their first line of JSON. missing, if not nil, is the error
// of run on a machine without the server.
func Commands(t *testing.T, run func(ctx context.Context, args []string, stdout io.Writer) error, missing error, commands ...[]string) {
	t.Helper()
	for _, args := range commands {
		var out bytes.Buffer
		err := run(t.Context(), append(args, "-json"), &out)
		if missing != nil && errors.Is(err, missing) {
			servertest.Need(t, err, missing)
		}
		if err != nil {
			t.Fatalf("%q: got %v, want no error", args, err)
		}
		var report struct{ Scenario string }
		if err := json.NewDecoder(&out).Decode(&report); err != nil || report.Scenario == "" {
			t.Errorf("%q: got %+v, %v, want a report with a scenario", args, report, err)
		}
	}
}
