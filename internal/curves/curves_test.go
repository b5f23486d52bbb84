package curves

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// A plot is well-formed, marks times in each panel, and leaves out NaN values.
func TestSVG(t *testing.T) {
	p := Plot{
		Times: []float64{0, 10, 20, 30}, End: 30, Lines: []float64{15}, Spans: [][2]float64{{5, 6}},
		Panels: []Panel{{"memory", "MiB", 2, []float64{2, math.NaN(), 4, 0}}, {"nothing", "", 1, []float64{0, 0, 0, 0}}},
	}
	text := string(p.SVG())
	in := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := in.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for what, want := range map[string]int{"most 2.0 MiB": 1, "#fbdcd6": 2, "<path": 2, "<polyline": 3, "NaN": 0, "130.0,55.0": 1, "0 to 30 s": 1} {
		if got := strings.Count(text, what); got != want {
			t.Errorf("%q is %d times in the plot, want %d:\n%s", what, got, want, text)
		}
	}
	p.Times = p.Times[:1]
	if got := string(p.SVG()); strings.Contains(got, "polyline") || !strings.HasSuffix(got, "</svg>\n") {
		t.Errorf("a plot of one time is %s", got)
	}
}
