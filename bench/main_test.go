package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The test binary starts itself as the load generator, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		main()
		return
	}
	m.Run()
}

// runBench runs the command as a user does and returns its standard output.
func runBench(t *testing.T, args ...string) (string, error) {
	t.Helper()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	var stdout bytes.Buffer
	err = run(t.Context(), args, &stdout, stderr)
	return stdout.String(), err
}

func TestCommandWritesOneObjectPerScenario(t *testing.T) {
	dir := t.TempDir()
	out, err := runBench(t, "-run", "^limit/fsync$|^limit/seqwrite/4K$|^baseline/.*/150B$|^map/row$", "-duration", "20ms", "-rounds", "2", "-json", "-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(out) {
		var r struct {
			Scenario string  `json:"scenario"`
			RowsPerS float64 `json:"rows_per_s"`
			Rounds   int     `json:"rounds"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: got %v, want no error", line, err)
		}
		if r.RowsPerS <= 0 || r.Rounds != 2 {
			t.Errorf("%s: got %v rows/s in %d rounds, want some in 2", r.Scenario, r.RowsPerS, r.Rounds)
		}
		names = append(names, r.Scenario)
	}
	want := []string{
		"limit/fsync", "limit/seqwrite/4K", "baseline/rawfile/150B", "baseline/rawfile-reused/150B", "baseline/pebble-set/150B", "map/row",
	}
	if !slices.Equal(names, want) {
		t.Errorf("scenarios are %q, want %q", names, want)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("the run left %s behind", left[0].Name())
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-run", "("}, "-run"},
		{[]string{"-run", "^no such"}, "-list"},
		{[]string{"-duration", "-1s"}, "-duration"},
		{[]string{"-rounds", "0"}, "-rounds"},
		{[]string{"ingest"}, "ingest"},
	} {
		if _, err := runBench(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error is %v, want one about %q", tt.args, err, tt.want)
		}
	}
}
