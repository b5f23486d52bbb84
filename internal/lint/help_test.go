package lint

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/casetest"
)

// Programs show their flags when they are asked to, and do not call that an error.
func TestHelpIsNoError(t *testing.T) {
	if !casetest.All() {
		t.Skip("it links seven programs: the stage cases of CI does")
	}
	dir := t.TempDir()
	for module, folders := range map[string][]string{
		".": {"./bench", "./internal/soak"}, "examples": {"./templates", "./inspect", "./extract", "./platform", "./quickstart"},
	} {
		build := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", dir}, folders...)...)
		build.Dir = filepath.Join("..", "..", module)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("got %v: %s, want no error", err, out)
		}
	}
	programs, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(programs) < 7 {
		t.Fatalf("programs %v, %v", programs, err)
	}
	for _, program := range programs {
		out, err := exec.Command(program, "-h").CombinedOutput()
		if err != nil || strings.Contains(string(out), "help requested") || !bytes.Contains(out, []byte("  -")) {
			t.Errorf("%s -h: got %v, want no error and the flags in: %s", filepath.Base(program), err, out)
		}
	}
}
