// Package show prints the progress and the tables of the programs.
package show

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// Table counts the rows of a table and keeps the first of them.
type Table struct {
	// ID is the name of the table. Columns name the cells of a row.
	ID      string
	Columns []string
	// Rows is how many were added.
	Rows int64
	// Keep is how many rows are kept.
	Keep int
	kept [][]string
}

// Add counts a row, which it may keep.
func (t *Table) Add(row []string) {
	if t.Rows++; len(t.kept) < t.Keep {
		t.kept = append(t.kept, row)
	}
}

// Print writes how many rows there are, and the kept ones with cells of at most width characters.
func (t *Table) Print(out io.Writer, width int) error {
	fmt.Fprintf(out, "table %s: %d rows, for example\n", t.ID, t.Rows)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  %s\n", strings.Join(t.Columns, "\t"))
	for _, row := range t.kept {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.Join(strings.Fields(cell), " ")
			if r := []rune(cells[i]); len(r) > width {
				cells[i] = string(r[:width-1]) + "…"
			}
		}
		fmt.Fprintf(w, "  %s\n", strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// Progress is a line that shows the progress of a program. A terminal shows it in one place. Elsewhere it is a new line every
// five seconds.
type Progress struct {
	out        io.Writer
	clear, end string
	pause      time.Duration
	written    time.Time
	line       string
	shown      bool // the line is written as it is
}

// NewProgress returns a progress line on out.
func NewProgress(out io.Writer) *Progress {
	p := &Progress{out: out, end: "\n", pause: 5 * time.Second, written: time.Now()}
	if f, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.clear, p.end, p.pause = "\r\x1b[K", "", 200*time.Millisecond
		}
	}
	return p
}

// Show replaces the line. It writes nothing if the last line is too new.
func (p *Progress) Show(format string, args ...any) {
	p.line, p.shown = fmt.Sprintf(format, args...), false
	if time.Since(p.written) >= p.pause {
		p.written, p.shown = time.Now(), true
		fmt.Fprint(p.out, p.clear, p.line, p.end)
	}
}

// End writes the last line, unless it was just written.
func (p *Progress) End() {
	if p.shown && p.clear == "" {
		return
	}
	p.shown = true
	fmt.Fprint(p.out, p.clear, p.line, "\n")
}
