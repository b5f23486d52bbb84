package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// A bar is a line of a plot.
type bar struct {
	label string
	value float64
	// mark is drawn as a line across: a limit, or a p99. other is the value of another report. nil for none.
	mark, other *float64
}

// The colours work on white and on black.
const plotStyle = `<style>
text { font: 12px sans-serif; fill: #24292f; }
.title { font-weight: bold; }
.value { fill: #57606a; }
.bar { fill: #2f81c9; }
.other { fill: #c98a2f; }
.mark { stroke: #c9302f; stroke-width: 2; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .value { fill: #9198a1; } }
</style>
`

// drawBars draws horizontal bars, all over one scale that begins at 0, as an SVG.
func drawBars(title, unit string, bars []bar) []byte {
	const left, width, right, row, thick = 260, 520, 200, 26, 14
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value, value(b.mark), value(b.other))
	}
	if most == 0 {
		most = 1
	}
	var out bytes.Buffer
	height := 36 + row*len(bars)
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", left+width+right, height, left+width+right, height)
	fmt.Fprintf(&out, "<title>%s</title>\n%s", escaped(title), plotStyle)
	fmt.Fprintf(&out, `<text class="title" x="4" y="18">%s (%s)</text>`+"\n", escaped(title), escaped(unit))
	at := func(v float64) float64 { return left + v/most*width }
	for i, b := range bars {
		top := 30 + i*row
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, top+12, escaped(b.label))
		size := thick
		if b.other != nil {
			size = thick / 2
			fmt.Fprintf(&out, `<rect class="other" x="%d" y="%d" width="%.1f" height="%d"/>`, left, top+size, at(*b.other)-left, size)
		}
		fmt.Fprintf(&out, `<rect class="bar" x="%d" y="%d" width="%.1f" height="%d"/>`, left, top, at(b.value)-left, size)
		end := at(max(b.value, value(b.other)))
		if b.mark != nil {
			fmt.Fprintf(&out, `<line class="mark" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, at(*b.mark), at(*b.mark), top-3, top+thick+3)
			end = max(end, at(*b.mark))
		}
		text := short(b.value)
		if b.mark != nil {
			text += " of " + short(*b.mark)
		}
		if b.other != nil {
			text += ", compared " + short(*b.other)
		}
		fmt.Fprintf(&out, `<text class="value" x="%.1f" y="%d">%s</text>`+"\n", end+6, top+12, text)
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// short writes a value with at most four digits where it has more than that.
func short(v float64) string {
	if v >= 1000 {
		return thousands(v)
	}
	return fmt.Sprintf("%.3g", v)
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // into memory
	return b.String()
}
