package main

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/importbench"
)

func TestBench(t *testing.T) {
	var out strings.Builder
	args := []string{"-rows", "2000", "-rounds", "1", "-dir", t.TempDir()}
	if err := importbench.Run(t.Context(), args, &out, importbench.Scenario{Name: "import/iceberg", Import: driver, Loader: library}); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
}
