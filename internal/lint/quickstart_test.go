package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestQuickstartStaysLean lists the modules that the first command of README.md downloads and compiles. Who tries the project waits for
// all of them. If a new one is meant:
//
//	go test ./internal/lint -run TestQuickstartStaysLean -update
func TestQuickstartStaysLean(t *testing.T) {
	const golden = "testdata/quickstart.txt"
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./quickstart")
	list.Dir = filepath.Join("..", "..", "examples")
	list.Env = append(os.Environ(), "GOWORK=off")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := slices.DeleteFunc(strings.Fields(string(out)), func(m string) bool { return strings.HasPrefix(m, module) }) // the clone has them
	slices.Sort(modules)
	got := strings.Join(slices.Compact(modules), "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if added, removed := difference(strings.ReplaceAll(string(want), "\n", "\n\n"), strings.ReplaceAll(got, "\n", "\n\n")); len(added)+len(removed) > 0 {
		t.Errorf("the modules of examples/quickstart differ from %s. What few users need belongs into a nested module; if the change is meant, run the test with -update\n+ %s\n- %s",
			golden, strings.Join(added, "\n+ "), strings.Join(removed, "\n- "))
	}
}
