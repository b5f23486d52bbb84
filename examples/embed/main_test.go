package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test binary stands in for the program when this variable is set.
const asProgram = "EMBED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEmbed(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for range 2 { // the second run finds the directory of the first
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "stored - ") {
			t.Fatalf("got %v\n%s\nwant no error and strings.HasPrefix(string(out), \"stored - \")", err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "embed-data", "tables", "in.c-embed.events")); err != nil {
		t.Errorf("the comment about the table's place is wrong: %v", err)
	}
}
