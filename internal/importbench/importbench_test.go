package importbench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/importbench"
)

func TestRunReportsBothWays(t *testing.T) {
	driver := func(ctx context.Context, _ string, in importbench.Input) (func() error, func() (int64, error), error) {
		n := int64(0)
		return func() error {
			rows := in.File.ReadRows(ctx)
			defer rows.Close()
			for rows.Next() {
				n++
			}
			return rows.Err()
		}, func() (int64, error) { return n, nil }, nil
	}
	loader := func(_ context.Context, _ string, in importbench.Input) (func() error, func() (int64, error), error) {
		n := int64(0)
		return func() error {
			data, err := os.ReadFile(in.CSV)
			n = int64(bytes.Count(data, []byte("\n")))
			return err
		}, func() (int64, error) { return n, nil }, nil
	}
	for _, encoding := range []string{"none", "gzip", "zstd"} {
		var out strings.Builder
		scenario := importbench.Scenario{Name: "import/nothing", Import: driver, Loader: loader, Goal: 1e-9}
		args := []string{"-rows", "3000", "-rounds", "2", "-json", "-dir", t.TempDir(), "-encoding", encoding}
		if err := importbench.Run(t.Context(), args, &out, scenario); err != nil {
			t.Fatal(err)
		}
		var r map[string]any
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil || r["scenario"] != "import/nothing" || r["rows"] != 3000.0 || r["met"] != true ||
			r["rows_per_s"].(float64) <= 0 || r["of_loader"].(float64) <= 0 {
			t.Errorf("got %v, %s, want a result with both rates above 0", err, out.String())
		}
	}
	lost := func(context.Context, string, importbench.Input) (func() error, func() (int64, error), error) {
		return func() error { return nil }, func() (int64, error) { return 2999, nil }, nil
	}
	err := importbench.Run(t.Context(), []string{"-rows", "3000", "-dir", t.TempDir()}, &strings.Builder{}, importbench.Scenario{Name: "lost", Import: lost, Loader: loader})
	if err == nil || !strings.Contains(err.Error(), "2999 rows, want 3000") {
		t.Errorf("%v although a row is missing", err)
	}
}
