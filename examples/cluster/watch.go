package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/internal/program/show"
)

// screen writes what happens, and a line with the state of all.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	line  *show.Progress
	shown bool
	begin time.Time
}

func newScreen(out io.Writer) *screen {
	return &screen{out: out, line: show.NewProgress(out), begin: time.Now()}
}

// say writes a line that stays.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
	fmt.Fprintf(s.out, "%6.1fs  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.Show("%6.1fs  %s", time.Since(s.begin).Seconds(), text)
	s.shown = true
}

func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLine()
}

func (s *screen) endLine() {
	if s.shown {
		s.line.End()
		s.shown = false
	}
}

// table is the table as it was read last.
type table struct {
	path string
	seen map[string]bool // files

	mu      sync.Mutex
	rows    map[string]int
	err     error
	changed chan struct{} // closed when it is read again
}

func newTable(path string) *table {
	return &table{path: path, seen: make(map[string]bool), rows: make(map[string]int), changed: make(chan struct{})}
}

// read reads the files that are new. After some hours there are a hundred thousand. The audit reads all of them with the driver.
func (t *table) read() {
	paths, err := filepath.Glob(filepath.Join(t.path, tableID, "*.csv"))
	var ids []string
	for _, path := range paths {
		if t.seen[path] || err != nil {
			continue
		}
		t.seen[path] = true
		var lines [][]string
		if lines, err = readCSV(path); err == nil && len(lines) > 0 {
			at := max(slices.Index(lines[0], "id"), 0)
			for _, line := range lines[1:] {
				ids = append(ids, line[at])
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	for _, id := range ids {
		t.rows[id]++
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits until the table has all ids.
func (t *table) await(ctx context.Context, ids []string) error {
	for {
		t.mu.Lock()
		missing, err, changed := lacks(t.rows, ids), t.err, t.changed
		t.mu.Unlock()
		if err != nil || missing == 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the table lacks %d of %d rows: %w", missing, len(ids), context.Cause(ctx))
		}
	}
}

func readCSV(path string) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return csv.NewReader(f).ReadAll()
}

// readTable reads the table again and again, until ctx ends. A large one takes a while.
func (r *runner) readTable(ctx context.Context) {
	for ctx.Err() == nil {
		begin := time.Now()
		r.table.read()
		select {
		case <-time.After(max(200*time.Millisecond, 4*time.Since(begin))):
		case <-ctx.Done():
		}
	}
}

// watch asks all nodes how they are, and shows that and the table, until ctx ends.
func (r *runner) watch(ctx context.Context) {
	for ctx.Err() == nil {
		var asking sync.WaitGroup
		for _, p := range r.nodes {
			asking.Go(func() { p.ask(ctx) })
		}
		asking.Wait()
		r.table.mu.Lock()
		rows := len(r.table.rows)
		r.table.mu.Unlock()
		var nodes strings.Builder
		for _, p := range r.nodes {
			fmt.Fprintf(&nodes, "%s %-10s ", p.Name, p.state())
		}
		r.screen.show(fmt.Sprintf("%s sent %d/%d  table %d", nodes.String(), r.sent.Load(), r.n, rows)) // within 80 columns
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// observe notes when a node is not ready, until ctx ends. It asks more often than watch, which reads the table too.
func (r *runner) observe(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, p := range r.nodes {
			p.mu.Lock()
			address := p.told.Address
			p.mu.Unlock()
			if found, err := ready(ctx, p.asker, address); err != nil || !found.Ready {
				r.unready.Store(time.Now().UnixNano())
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// ask asks the node how it is.
func (p *process) ask(ctx context.Context) {
	p.mu.Lock()
	address, started := p.told.Address, p.told
	p.mu.Unlock()
	var status readiness
	if address != "" {
		if found, err := ready(ctx, p.asker, address); err == nil {
			status = found
		} else {
			status.Missing = err.Error()
		}
	}
	p.set(func() {
		if p.told == started { // else the response is of the previous process
			p.status = status
		}
	})
}

// state says in a word how the node is.
func (p *process) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.status.Adopting) > 0:
		return "takes over"
	case p.status.Ready:
		return "ready"
	case p.what != "":
		return p.what
	}
	return "not ready"
}

func (p *process) instance() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.Instance
}
