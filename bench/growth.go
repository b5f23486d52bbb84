package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// A growth is the cost of a row while one number grows. Its scenarios are growth/NAME=1, growth/NAME=10, and so on, and all are compared with the first.
type growth struct {
	name   string
	values []int
	run    func(n int) scenarioFunc
	goals  []goal // of all but the first
	// title and text stand above its section of the page.
	title, text string
}

// growthPattern selects the scenarios of all growths.
const growthPattern = `^growth/`

func growths() []growth {
	small, large := workloads()[0], workloads()[1]
	return []growth{
		{
			name: "sinks", values: []int{1, 10, 100, 1000, 10_000}, run: func(n int) scenarioFunc { return spreadOver(large, n) },
			goals: []goal{atLeast("of_first", 0.6)},
			title: "Sinks", text: "1,024 callers store events of 1 KB one at a time, each in the next sink. The rows of a commit that are in the same sink are compressed together, and are one entry of the store. With one sink these are hundreds of rows, with 10,000 sinks one or two, so a row costs twice as much.",
		},
		{
			name: "columns", values: []int{1, 3, 10, 30, 100}, run: manyColumns,
			title: "Columns", text: "One core maps a body to columns, one for each of its fields. Each column adds about 40 ns, whatever their number.",
		},
		{
			name: "bytes", values: []int{50, 1000, 10_000, 100_000, 1_000_000},
			run:   func(n int) scenarioFunc { return severalCallers(workload{name: "body", bodyBytes: n}, 8) },
			title: "Bytes of a body", text: "8 callers store events one at a time, with the default compression. A call costs about 17 µs, because 8 callers share few commits, and each byte 0.7 to 1.4 ns.",
		},
		{
			name: "callers", values: []int{1, 10, 100, 1000, 10_000}, run: func(n int) scenarioFunc { return severalCallers(small, n) },
			title: "Callers", text: "Callers store events of 150 B one at a time. A single caller pays for a commit alone, and a hundred callers share it. With 10,000 callers a row costs more again. Sleeping and waking take 2.4 µs of that (`baseline/wake`).",
		},
		{
			name: "backlog-mb", values: []int{0, 16, 128, 1024}, run: func(n int) scenarioFunc { return afterBacklog(large, int64(n)<<20) },
			title: "Backlog", text: "64 callers store events of 1 KB one at a time. Older rows wait in the local level, because staging is away. The cost does not depend on what waits.",
		},
		{
			name: "parts", values: []int{1, 10, 100, 1000, 10_000}, run: partsOfTable,
			title: "Parts of a table", text: "Files of one row are imported into a table in a folder, which already has parts. An import waits for its syncs most of the time. The cost does not depend on the number of parts.",
		},
	}
}

// ofGrowth returns the scenarios of all growths.
func ofGrowth() (all []scenario) {
	for _, g := range growths() {
		name := func(n int) string { return fmt.Sprintf("growth/%s=%d", g.name, n) }
		for i, n := range g.values {
			s := scenario{name: name(n), group: "growth/" + g.name, run: g.run(n)}
			if i > 0 {
				s.against, s.goals = []baseline{{"first", name(g.values[0])}}, g.goals
			}
			all = append(all, s)
		}
	}
	return all
}

// growthSections are the chapters of a report about growth.
func growthSections() (all []section) {
	for _, g := range growths() {
		all = append(all, section{
			title: g.title, text: g.text, pattern: regexp.MustCompile("^growth/" + g.name + "="),
			plots: []plotOf{{file: g.name + ".svg", title: "CPU time of a row", unit: "µs", bar: func(r result) (bar, bool) {
				return bar{value: value(r.CPUPerRow) / 1000}, r.CPUPerRow != nil
			}, text: ofLimit}},
		})
	}
	return all
}

// manyColumns maps all fields of a body.
func manyColumns(n int) scenarioFunc {
	var list mapping.Columns
	for i := range n {
		list = append(list, mapping.Path(fmt.Sprintf("c%d", i), fieldName(i), mapping.RawString()))
	}
	return mapTask(task{columns: list, body: func(event int) []byte {
		var fields []string
		for i := range n {
			fields = append(fields, fmt.Sprintf(`"%s":"value %04d"`, fieldName(i), event+i))
		}
		return []byte("{" + strings.Join(fields, ",") + "}")
	}})
}

// severalCallers stores events one at a time. Each caller has few events, because large ones would not fit in memory.
func severalCallers(w workload, callers int) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		return setup{}.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) { return storeSingly(ctx, e, eng, w, len(w.row()), callers) })
	}
}

func storeSingly(ctx context.Context, e *env, eng *forebay.Engine, w workload, rowBytes, callers int) (*sample, error) {
	var overloads atomic.Int64
	s, err := measure(ctx, e, load{
		callers: callers, rowBytes: rowBytes, every: 1,
		start: func(caller int) operation { return single(ctx, eng, w.records(caller, 4), &overloads) },
	})
	if err == nil {
		s.Overloads = overloads.Load()
	}
	return s, err
}

// afterBacklog stores events while older rows wait.
func afterBacklog(w workload, size int64) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		return backlogged(closedStaging{}).measured(ctx, e, func(eng *forebay.Engine) (*sample, error) {
			waiting := startLoad(ctx, fillCallers, func(caller int, overloads *atomic.Int64) operation {
				return ingestion{workload: w, batch: fillBatch}.batches(ctx, eng, caller, overloads)
			})
			full := until(waiting.ctx, seldom, func() bool { return eng.Stats().LocalBytes >= size })
			if err := errors.Join(waiting.stop(), full); err != nil {
				return nil, fmt.Errorf("fill the local level: %w", err)
			}
			s, err := storeSingly(ctx, e, eng, w, len(w.row()), 64)
			if err == nil {
				s.Total += waiting.rows.Load()
			}
			return s, err
		})
	}
}

// partsOfTable imports files of one row into a table that has n parts.
func partsOfTable(n int) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		row := workloads()[0].row()
		tables := dir.Tables(filepath.Join(e.dir, "tables"))
		table := driver.Table{ID: "in.c-web.events", Columns: must(mapping.Compile(columns(), mapping.Options{})).Columns()}
		if err := tables.Ensure(ctx, table); err != nil {
			return nil, err
		}
		imported := 0
		add := func() (int, error) {
			imported++
			file := fmt.Sprintf("file-%09d", imported)
			slice := driver.Object{ID: file + "-0", FileID: file, SinkID: sinkID, Rows: 1, RawBytes: int64(len(row))}
			return 1, tables.Import(ctx, &driver.File{
				ID: file, SinkID: sinkID, Table: table, Slices: []driver.Object{slice}, Rows: 1, RawBytes: slice.RawBytes,
				OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(row)), nil
				},
				SaveProgress: func(context.Context, []byte) error { return nil },
			})
		}
		for range n {
			if _, err := add(); err != nil {
				return nil, err
			}
		}
		s, err := oneCore(ctx, e, len(row), 1, add)
		if err != nil {
			return nil, err
		}
		rows := int64(0)
		for _, err := range tables.Rows(table.ID) {
			if err != nil {
				return nil, err
			}
			rows++
		}
		if want := s.Total + int64(n); rows != want {
			return nil, fmt.Errorf("the table has %d rows, want %d", rows, want)
		}
		return s, nil
	}
}
