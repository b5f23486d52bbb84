package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// A bar is a line of a plot.
type bar struct {
	label string
	value float64
	// mark is drawn as a line across for a limit, or a p99. other is the value of another report. nil for none.
	mark, other *float64
}

// A chart is a plot of horizontal bars over one scale.
type chart struct {
	title, unit string
	bars        []bar
	// text describes the bar and its mark, for example "2 (p99 5)", and other values follow it.
	text func(b bar) string
}

// ofLimit is the text of bars whose mark is a limit.
func ofLimit(b bar) string {
	if b.mark == nil {
		return short(b.value)
	}
	return short(b.value) + " (limit " + short(*b.mark) + ")"
}

// The colours work on white and on black.
const plotStyle = `<style>
text { font: 12px sans-serif; fill: #24292f; }
.title { font-weight: bold; }
.value, .tick { fill: #57606a; }
.grid { stroke: #8c959f; stroke-opacity: 0.35; }
.bar { fill: #2f81c9; }
.other { fill: #c98a2f; }
.mark { stroke: #c9302f; stroke-width: 2; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .value, .tick { fill: #9198a1; } }
</style>
`

// A scale maps values to the width of the plot, from 0 to 1.
type scale struct {
	from, to    float64
	logarithmic bool
	ticks       []float64
}

// wide is the ratio of the largest to the smallest value above which a linear scale would hide the smallest.
const wide = 40

// scaleOf returns a scale for values, a linear one that begins at 0, or decades if the values differ too much for that.
func scaleOf(values []float64) scale {
	least, most := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	if most == 0 {
		return scale{to: 1}
	}
	if most/least > wide {
		s := scale{from: math.Pow(10, math.Floor(math.Log10(least))), logarithmic: true}
		for s.to = s.from; s.to < most; s.to *= 10 {
			s.ticks = append(s.ticks, s.to)
		}
		s.ticks = append(s.ticks, s.to)
		return s
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for most/step < 4 { // 4 to 10 ticks
		step /= 2
	}
	s := scale{to: most}
	for n := 0.0; n*step <= most; n++ {
		s.ticks = append(s.ticks, n*step)
	}
	return s
}

func (s scale) at(v float64) float64 {
	if s.logarithmic {
		return max(0, math.Log(v/s.from)/math.Log(s.to/s.from))
	}
	return v / s.to
}

// draw draws the chart as an SVG.
func (c chart) draw() []byte {
	const left, width, right, row, thick = 260, 520, 240, 26, 14
	var values []float64
	for _, b := range c.bars {
		values = append(values, b.value, value(b.mark), value(b.other))
	}
	s := scaleOf(values)
	var out bytes.Buffer
	bottom := 30 + row*len(c.bars)
	height := bottom + 22
	unit := c.unit
	if s.logarithmic {
		unit += ", logarithmic"
	}
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", left+width+right, height, left+width+right, height)
	fmt.Fprintf(&out, "<title>%s</title>\n%s", escaped(c.title), plotStyle)
	fmt.Fprintf(&out, `<text class="title" x="4" y="18">%s (%s)</text>`+"\n", escaped(c.title), escaped(unit))
	at := func(v float64) float64 { return left + s.at(v)*width }
	for _, tick := range s.ticks {
		fmt.Fprintf(&out, `<line class="grid" x1="%.1f" x2="%.1f" y1="26" y2="%d"/>`, at(tick), at(tick), bottom)
		fmt.Fprintf(&out, `<text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at(tick), bottom+15, short(tick))
	}
	for i, b := range c.bars {
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
		text := c.text(b)
		if b.other != nil {
			text += ", compared " + short(*b.other)
		}
		fmt.Fprintf(&out, `<text class="value" x="%.1f" y="%d">%s</text>`+"\n", end+6, top+12, escaped(text))
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
