package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/importbench"
)

func TestBench(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the program sqlite3 is not installed")
	}
	var out strings.Builder
	args := []string{"-rows", "2000", "-rounds", "1", "-dir", t.TempDir()}
	if err := importbench.Run(t.Context(), args, &out, importbench.Scenario{Name: "import/sqlite", Import: driver, Loader: shell}); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
}
