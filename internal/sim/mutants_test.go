package sim

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// mutants are the defects of buffer/mutant.go and internal/pebblestore/mutant.go.
var mutants = []string{
	"skip-sync", "believe-sync", "early-ack", "late-sync", "new-id", "reuse-id", "forget-slice", "early-delete",
	"early-wipe", "leak-object", "reverse", "wrong-columns", "early-effect", "trust-memory", "early-expiry",
	"silent-expiry", "silent-damage", "wrong-place", "keep-discard", "clock-back",
	"no-pressure",
}

// A simulation that finds nothing proves nothing: each build that is broken on purpose must fail within the seeds that
// every run of the tests plays.
func TestMutantsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs many variants")
	}
	if os.Getenv("FOREBAY_MUTANT") != "" {
		t.Skip("this is a mutant")
	}
	binary := filepath.Join(t.TempDir(), "sim.test")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "forebay_mutants", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := func(t *testing.T, mutant, seeds string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSimulation$", "-seeds", seeds)
		cmd.Env = append(os.Environ(), "FOREBAY_MUTANT="+mutant)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	// A binary that cannot run at all would look like a caught defect.
	if out, err := run(t, "", "3"); err != nil {
		t.Fatalf("the build without a defect fails: %v\n%s", err, out)
	}
	for _, mutant := range mutants {
		t.Run(mutant, func(t *testing.T) {
			out, err := run(t, mutant, "300")
			if err == nil {
				t.Fatalf("300 seeds did not find the defect")
			}
			t.Logf("found: %.300s", out)
		})
	}
}
