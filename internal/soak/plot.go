package main

import (
	"bytes"
	"fmt"
)

// panel is one curve of the plot.
type panel struct {
	title, unit string
	scale       float64
	column      int
}

// plot draws the samples as an SVG, one panel for each curve, over the same time.
func plot(samples []sample) []byte {
	panels := []panel{
		{"resident memory", "MiB", 1 << 20, residentBytes},
		{"heap", "MiB", 1 << 20, heapBytes},
		{"open handles", "", 1, handles},
		{"goroutines", "", 1, goroutines},
		{"waiting rows", "thousand", 1000, waitingRows},
		{"files on disk", "MiB", 1 << 20, diskBytes},
	}
	const width, height, left, gap = 900, 90, 130, 30
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		width+left+20, len(panels)*(height+gap)+40)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	if len(samples) < 2 {
		fmt.Fprintln(&b, `</svg>`)
		return b.Bytes()
	}
	end := samples[len(samples)-1][seconds]
	for i, p := range panels {
		top := i*(height+gap) + 10
		most := 1.0
		for _, s := range samples {
			most = max(most, s[p.column])
		}
		fmt.Fprintf(&b, `<text x="5" y="%d">%s</text><text x="5" y="%d" fill="#666">most %.1f %s</text>`+"\n",
			top+15, p.title, top+32, most/p.scale, p.unit)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#ccc"/>`+"\n", left, top, width, height)
		fmt.Fprint(&b, `<polyline fill="none" stroke="#1f77b4" stroke-width="1" points="`)
		for _, s := range samples {
			fmt.Fprintf(&b, "%.1f,%.1f ", left+s[seconds]/end*width, float64(top+height)-s[p.column]/most*height)
		}
		fmt.Fprintln(&b, `"/>`)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">0 to %.0f s</text>`+"\n</svg>\n", left, len(panels)*(height+gap)+20, end)
	return b.Bytes()
}
