package main

import (
	"strings"
	"testing"
)

func TestAnalytics(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second run finds the table of the first
		var out strings.Builder
		if err := run(t.Context(), &out, dir, 500); err != nil || !strings.HasSuffix(out.String(), "\nanalytics: sent=500 rows=500\n") {
			t.Fatalf("got %v\n%s\nwant no error and strings.HasSuffix(out.String(), \"\\nanalytics: sent=500 rows=500\\n\")", err, out.String())
		}
	}
}
