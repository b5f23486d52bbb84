package forebay_test

import (
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/zerotest"
	"github.com/forebay/forebay/mapping"
)

// TestZeroValues calls each method of an engine, and of the values that it returns, with zero values. A method returns, with or without
// an error, and does not panic.
func TestZeroValues(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	err = eng.Define(t.Context(), forebay.Source{ID: "s", Sinks: []forebay.Sink{
		{ID: "k", OnReject: forebay.Quarantine, Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Body("body")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, receiver := range []any{eng, eng.WaitForRoom(), eng.Quarantine("s", "k"), forebay.Pending{}, &forebay.Turn{}} {
		zerotest.Calls(t, receiver, []string{"s", "k"}, "Close", "Remove", "Forget")
	}
}
