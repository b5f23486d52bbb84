// Package curves draws figures over time as an SVG.
package curves

import (
	"bytes"
	"fmt"
	"math"
)

// Panel is one curve.
type Panel struct {
	// Title and Unit are written next to the curve. Values are divided by Scale, which is not 0.
	Title, Unit string
	Scale       float64
	// Values belong to the times of the plot. The curve has a gap at NaN.
	Values []float64
}

// Plot has one panel for each curve, over the same time.
type Plot struct {
	// Times of the values, in seconds, and End of the axis.
	Times []float64
	End   float64
	// Panels are drawn from top to bottom.
	Panels []Panel
	// Lines and Spans mark times in all panels.
	Lines []float64
	Spans [][2]float64
}

// SVG draws the plot.
func (p Plot) SVG() []byte {
	const width, height, left, gap = 900, 90, 130, 30
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		width+left+20, len(p.Panels)*(height+gap)+40)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	if len(p.Times) < 2 {
		fmt.Fprintln(&b, `</svg>`)
		return b.Bytes()
	}
	at := func(seconds float64) float64 { return left + min(seconds/p.End, 1)*width }
	for i, panel := range p.Panels {
		top := i*(height+gap) + 10
		most := 0.0
		for _, v := range panel.Values {
			if v > most { // NaN is not
				most = v
			}
		}
		fmt.Fprintf(&b, `<text x="5" y="%d">%s</text><text x="5" y="%d" fill="#666">most %.1f %s</text>`+"\n",
			top+15, panel.Title, top+32, most/panel.Scale, panel.Unit)
		for _, s := range p.Spans {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#fbdcd6"/>`, at(s[0]), top, max(1, at(s[1])-at(s[0])), height)
		}
		for _, x := range p.Lines {
			fmt.Fprintf(&b, `<path d="M%.1f,%dv%d" stroke="#ccc"/>`, at(x), top, height)
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#ccc"/>`+"\n", left, top, width, height)
		const begin, end = `<polyline fill="none" stroke="#1f77b4" stroke-width="1" points="`, `"/>` + "\n"
		fmt.Fprint(&b, begin)
		for i, v := range panel.Values {
			if math.IsNaN(v) {
				fmt.Fprint(&b, end, begin)
				continue
			}
			if most > 0 {
				v /= most
			}
			fmt.Fprintf(&b, "%.1f,%.1f ", at(p.Times[i]), float64(top+height)-v*height)
		}
		fmt.Fprint(&b, end)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">0 to %.0f s</text>`+"\n</svg>\n", left, len(p.Panels)*(height+gap)+20, p.End)
	return b.Bytes()
}
