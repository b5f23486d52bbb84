package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// change is a change of a file of Go or of a dependency.
type change struct{ file, old, new string }

// The clock of the built program is off by time.Jump, and each sync of a file takes up to time.SyncDelay longer. Monotonic times stay right.
var changes = []change{
	{"time/time.go", `import (
`, `import (
	"sync/atomic"
`},
	{"time/time.go", `func Now() Time {
	sec, nsec, mono := runtimeNow()
`, `func Now() Time {
	sec, nsec, mono := runtimeNow()
	jumped := sec*1e9 + int64(nsec) + Jump.Load()
	sec, nsec = jumped/1e9, int32(jumped%1e9)
`},
	{"time/time.go", `// runtimeNow returns the current time.
`, `var Jump, SyncDelay atomic.Int64

// WaitForDisk takes a tenth of SyncDelay to all of it.
func WaitForDisk() {
	if d := SyncDelay.Load(); d > 0 {
		Sleep(Duration(d/10 + runtimeNano()%97*d*9/960))
	}
}

// runtimeNow returns the current time.
`},
	{"os/file_posix.go", `	if e := f.pfd.Fsync(); e != nil {
`, `	time.WaitForDisk()
	if e := f.pfd.Fsync(); e != nil {
`},
	{"github.com/forebay/forebay/internal/pebblestore/fs.go", `{ return f.sync(f.File.SyncData) }`, `{
	return f.sync(func() error {
		time.WaitForDisk()
		return f.File.SyncData()
	})
}`},
}

// goCommand runs go in the folder of a version of this module, and returns the standard output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// build builds the program in the folder of a version of this module so that files move the clocks of its nodes, and make their disks slow. Without changes
// the result is in Go's cache.
func build(t *testing.T, dir string) (program string) {
	t.Helper()
	tmp := t.TempDir()
	root := goCommand(t, dir, "env", "GOROOT")
	text := make(map[string]string)
	for _, c := range changes {
		path := filepath.Join(root, "src", filepath.FromSlash(c.file))
		if pkg := filepath.ToSlash(filepath.Dir(c.file)); strings.Contains(pkg, ".") {
			path = filepath.Join(goCommand(t, dir, "list", "-f", "{{.Dir}}", pkg), filepath.Base(c.file))
		}
		if text[path] == "" {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text[path] = string(content)
		}
		if n := strings.Count(text[path], c.old); n != 1 {
			t.Fatalf("%s has %d times %q, want it once: change the changes of this test", path, n, c.old)
		}
		text[path] = strings.Replace(text[path], c.old, c.new, 1)
	}
	replace := make(map[string]string)
	for path, content := range text {
		replace[path] = filepath.Join(tmp, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	moved, err := filepath.Abs(filepath.Join("testdata", "chaos.go"))
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	replace[filepath.Join(dir, "chaos.go")] = moved
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(tmp, "cluster.exe")
	goCommand(t, dir, "build", "-overlay", list, "-o", program, ".")
	return program
}

// buildOf builds the program as it was at a commit.
func buildOf(t *testing.T, commit string) (program string) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join("..", "..")
	for _, args := range [][]string{
		{"-C", root, "archive", "--output", filepath.Join(dir, "code.tar"), commit},
		{"-C", root, "show", "--no-patch", "--format=the other build is of %h, %cs: %s", commit},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		if err := cmd.Run(); err != nil {
			t.Fatalf("git %s: %v", strings.Join(args, " "), err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "tar", "-xf", "code.tar")
	cmd.Dir, cmd.Stderr = dir, t.Output()
	if err := cmd.Run(); err != nil {
		t.Fatalf("tar: %v", err)
	}
	return build(t, filepath.Join(dir, "examples", "cluster"))
}
