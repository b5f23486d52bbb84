package extractor_test

import (
	"fmt"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestTypesOfNumbers mixes numbers in both orders. No proposed type loses digits of an integer.
func TestTypesOfNumbers(t *testing.T) {
	t.Parallel()
	const wide = "9007199254740993" // no double holds it
	for _, test := range [][3]string{
		{"1", "2", "int64"},
		{"1", wide, "int64"},
		{"1", "1.5", "float64"},
		{wide, "1.5", "string"},
		{"9007199254740992", "1.5", "float64"},
		{"18446744073709551616", "1.5", "string"},
		{"1", `"1"`, "string"},
		{"1", "true", "string"},
		{"1", "[1]", "json"},
		{"1", "null", "int64"},
		{wide, "null", "int64"},
		{"null", "null", "json"},
	} {
		for _, values := range [][2]string{{test[0], test[1]}, {test[1], test[0]}} {
			cfg, err := extractor.Parse([]byte(config("", `"jobs": [{"endpoint": "u"}]`)))
			checkError(t, err, "")
			a := newAPI(t, fmt.Sprintf(`[{"n": %s}, {"n": %s}]`, values[0], values[1]))
			transport := a.transport()
			samples, err := extractor.Preview(t.Context(), cfg, extractor.State{}, 10, extractor.Options{Transport: transport})
			checkError(t, err, "")
			transport.CloseIdleConnections()
			if columns := extractor.Discover(samples)[0].Columns; len(columns) != 1 || columns[0].Type != test[2] {
				t.Errorf("%s has columns %v, want the type %s", values, columns, test[2])
			}
		}
	}
}
