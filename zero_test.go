package forebay_test

import (
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/zerotest"
	"github.com/forebay/forebay/mapping"
)

// TestZeroValues calls each method of an engine, and of the values that it returns, with zero values. A method returns, with or without
// an error, and does not panic.
func TestZeroValues(t *testing.T) {
	t.Chdir(t.TempDir()) // a relative path is one of the values
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	must(t, err)
	defer eng.Close()
	err = eng.Define(t.Context(), forebay.Source{ID: "s", Sinks: []forebay.Sink{
		{ID: "k", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Body("body")}}},
	}})
	must(t, err)
	for _, receiver := range []any{eng, eng.WaitForRoom(), eng.Sink("s", "k").Quarantine(), forebay.Pending{}, &forebay.Turn{}} {
		zerotest.Calls(t, receiver, []string{"s", "k"}, "Close", "Remove", "Forget")
	}
}

// An empty path is a mistake. It would stand for the working directory of the process.
func TestEmptyPathIsNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	must(t, err)
	defer eng.Close()
	_, opened := forebay.Open("", forebay.Options{})
	_, snapshot := eng.Snapshot(t.Context(), "")
	for name, err := range map[string]error{
		"Open": opened, "Checkpoint": eng.Checkpoint(t.Context(), ""), "Snapshot": snapshot,
		"Restore":           forebay.Restore("", "", nil, buffer.Tuning{}),
		"RestoreIncomplete": forebay.RestoreIncomplete("", "", nil, buffer.Tuning{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "no name") {
			t.Errorf("%s of an empty path: got %v, want an error that says it has no name", name, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the working directory contains %v (%v), want nothing", left, err)
	}
}
