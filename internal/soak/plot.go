package main

import "github.com/forebay/forebay/internal/curves"

// plot draws the samples as an SVG.
func plot(samples []sample) []byte {
	var p curves.Plot
	for _, s := range samples {
		p.Times = append(p.Times, s[seconds])
		p.End = s[seconds]
	}
	for _, panel := range []struct {
		title, unit string
		scale       float64
		column      int
	}{
		{"resident memory", "MiB", 1 << 20, residentBytes},
		{"heap", "MiB", 1 << 20, heapBytes},
		{"open handles", "", 1, handles},
		{"goroutines", "", 1, goroutines},
		{"waiting rows", "thousand", 1000, waitingRows},
		{"files on disk", "MiB", 1 << 20, diskBytes},
	} {
		c := curves.Panel{Title: panel.title, Unit: panel.unit, Scale: panel.scale}
		for _, s := range samples {
			c.Values = append(c.Values, s[panel.column])
		}
		p.Panels = append(p.Panels, c)
	}
	return p.SVG()
}
