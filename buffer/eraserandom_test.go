package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// erasureWorld has rows of four people, who are erased while files are imported, refused, split, quarantined, damaged and read again after a power cut.
type erasureWorld struct {
	t     *testing.T
	b     *buffer.Buffer
	opts  buffer.Options
	disk  *disktest.Disk
	mem   *buffertest.Memory
	sinks map[string]*buffer.DefinedSink
	story []string
	rng   *rand.Rand // of the test, and not of calls

	rows  []erasedRow
	asked map[string]bool // people who were erased once
	gone  map[string]bool // rows that a call has reported as erased or marked

	mu          sync.Mutex
	calls       *rand.Rand
	down, loses bool // the target
	refuses     bool
	missing     map[string]bool // objects
}

type erasedRow struct{ sink, id, person string }

func personOf(value string) string { person, _, _ := strings.Cut(value, " "); return person }

func (w *erasureWorld) before(_ context.Context, c buffertest.Call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.Op == buffertest.OpOpen && w.missing[c.ID]:
		return fs.ErrNotExist
	case w.down && (c.Op == buffertest.OpImport || c.Op == buffertest.OpImportMany || c.Op == buffertest.OpVoid):
		return errors.New("the target is down")
	}
	return nil
}

func (w *erasureWorld) after(_ context.Context, c buffertest.Call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loses && (c.Op == buffertest.OpImport || c.Op == buffertest.OpImportMany || c.Op == buffertest.OpVoid) && w.calls.IntN(2) == 0 {
		return errors.New("the response is lost")
	}
	return nil
}

func (w *erasureWorld) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *erasureWorld) open() {
	w.b = openAt(w.t, "data", localdisk.On(w.opts, w.disk))
	for _, id := range []string{"a", "b"} {
		w.sinks[id] = define(w.t, w.b, id, quarantined(), func(c *buffer.SinkConfig) { c.Upload.Count, c.Import.Interval = 3, time.Hour })
	}
}

// places returns how often each row is in its table or quarantine.
func (w *erasureWorld) places() (table, kept map[string]int) {
	table, kept = map[string]int{}, map[string]int{}
	for id := range w.sinks {
		for _, r := range w.mem.Rows("in.c-test." + id) {
			table[r[0]]++
		}
		for _, r := range list(w.t, w.b, id) {
			if _, record, _, err := w.b.Sink(id).RejectedRecord(w.t.Context(), r.ID); err == nil {
				n := 0
				_, _ = fmt.Sscanf(string(record), `"%d"`, &n)
				kept[fmt.Sprint(n)]++
			}
		}
	}
	return table, kept
}

func (w *erasureWorld) erase() string {
	sink, person := []string{"a", "b"}[w.rng.IntN(2)], fmt.Sprint("p", w.rng.IntN(3)) // the test never erases the fourth person
	if w.rng.IntN(8) == 0 {
		person = "nobody"
	}
	w.asked[person] = true
	wait := []time.Duration{0, time.Second, time.Minute}[w.rng.IntN(3)]
	var found []string
	res, err := w.b.Sink(sink).EraseRows(w.t.Context(), time.Now().Add(wait), func(_ driver.Table, cells [][]byte) bool {
		is := personOf(string(cells[1])) == person
		if is {
			found = append(found, string(cells[0]))
		}
		return is
	})
	if res.Found == int64(len(found)) && res.Found == res.Erased+res.Marked {
		for _, id := range found {
			w.gone[id] = true
		}
	}
	return fmt.Sprintf("erase %s of %s, wait %s: %+v, %v", person, sink, wait, res, err)
}

func (w *erasureWorld) step() string {
	sink := []string{"a", "b"}[w.rng.IntN(2)]
	short, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	waiting := func() string {
		st, _ := w.b.Sink(sink).Stats()
		for _, f := range st.Files {
			if f.State == buffer.FileImporting {
				return f.ID
			}
		}
		return "none"
	}
	switch w.rng.IntN(14) {
	case 0, 1, 2:
		n := 1 + w.rng.IntN(24)
		for range n {
			id, person, value := len(w.rows), fmt.Sprint("p", w.rng.IntN(4)), ""
			if w.rng.IntN(6) == 0 {
				value = " bad"
			}
			w.rows = append(w.rows, erasedRow{sink, fmt.Sprint(id), person})
			put1(w.t, w.b, w.sinks[sink], id, person+value)
		}
		return fmt.Sprintf("%d rows for %s", n, sink)
	case 3, 4, 5, 6:
		return w.erase()
	case 7:
		return fmt.Sprint("flush ", sink, ": ", w.b.Sink(sink).Flush(short))
	case 8:
		w.set(func() { w.down = !w.down })
		return fmt.Sprint("down: ", w.down)
	case 9:
		w.set(func() { w.loses = !w.loses })
		return fmt.Sprint("loses responses: ", w.loses)
	case 10:
		w.set(func() { w.refuses = !w.refuses })
		return fmt.Sprint("refuses rows: ", w.refuses)
	case 11:
		all := w.b.Sink(sink).Slices()
		if len(all) == 0 {
			return "no slice"
		}
		id := all[w.rng.IntN(len(all))].ID
		w.set(func() { w.missing[id] = true })
		return "missing: " + id
	case 12:
		id := waiting()
		if w.rng.IntN(2) == 0 {
			return fmt.Sprint("split ", id, ": ", w.b.Sink(sink).SplitFile(w.t.Context(), id))
		}
		return fmt.Sprint("quarantine ", id, ": ", w.b.Sink(sink).QuarantineFile(w.t.Context(), id))
	}
	if w.rng.IntN(2) == 0 {
		return fmt.Sprint("retry: ", w.b.Sink(sink).Retry(w.t.Context()))
	}
	cut := w.disk.Cut(vfs.CrashCloneCfg{})
	w.set(func() { w.down = true })
	closeBuffer(w.t, w.b)
	w.set(func() { w.down = false })
	w.disk = cut
	w.open()
	return "power cut"
}

// Whatever happens meanwhile, a row that EraseRows has reported as erased or marked never arrives, no other row is lost, none arrives twice, and every file
// ends.
func TestErasuresAtRandom(t *testing.T) {
	kinds := map[string]func(*buffertest.Memory) driver.Target{
		"Voider":       func(mem *buffertest.Memory) driver.Target { return mem },
		"ManyImporter": func(mem *buffertest.Memory) driver.Target { return buffertest.ManyMemory{Memory: mem} },
		"Counter":      func(mem *buffertest.Memory) driver.Target { return counts(mem) },
		"plain":        func(mem *buffertest.Memory) driver.Target { return struct{ driver.Target }{mem} },
	}
	rng := seedtest.Rand(t)
	for name, kind := range kinds {
		told := 0
		for range casetest.Of(1500, 100, 20) {
			seed := rng.Uint64()
			synctest.Test(t, func(t *testing.T) {
				w := &erasureWorld{
					t: t, mem: buffertest.NewMemory(), disk: disktest.New(t), rng: rand.New(rand.NewPCG(seed, 1)), calls: rand.New(rand.NewPCG(seed, 2)),
					sinks: map[string]*buffer.DefinedSink{}, asked: map[string]bool{}, gone: map[string]bool{}, missing: map[string]bool{},
				}
				w.mem.Names = w.rng.IntN(3) - 1
				w.mem.Before, w.mem.After = w.before, w.after
				w.mem.Refuse = func(_ string, row []string) driver.RowError {
					w.mu.Lock()
					defer w.mu.Unlock()
					if !w.refuses || !strings.HasSuffix(row[1], bad) {
						return driver.RowError{}
					}
					return driver.RowError{Column: "value", Reason: "23514"}
				}
				w.opts = memoryOptions(t, w.mem)
				w.opts.Target, w.opts.Tuning.UnreadableAfter = kind(w.mem), 1
				w.open()
				for range 25 {
					w.story = append(w.story, w.step())
				}
				w.end()
				told += len(w.gone)
				if t.Failed() {
					t.Fatalf("%s, seed %d:\n%s", name, seed, strings.Join(w.story, "\n"))
				}
			})
			if t.Failed() {
				return
			}
		}
		t.Logf("%s: %d rows were reported as erased or marked", name, told)
	}
}

func (w *erasureWorld) end() {
	t := w.t
	w.set(func() { w.down, w.loses, w.refuses, w.missing = false, false, false, map[string]bool{} })
	var err error
	for range 50 { // a flush ends early if an import fails
		err = errors.Join(w.b.Sink("a").Retry(t.Context()), w.b.Sink("b").Retry(t.Context()), w.b.Sink("a").Flush(t.Context()), w.b.Sink("b").Flush(t.Context()))
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("a file stays: %v", err)
	}
	table, kept := w.places()
	lost, damaged := int64(0), int64(0)
	for _, r := range w.rows {
		n := table[r.id] + kept[r.id]
		switch {
		case n > 1:
			t.Errorf("row %s is %d times in the table and %d times in the quarantine", r.id, table[r.id], kept[r.id])
		case w.gone[r.id] && table[r.id] > 0:
			t.Errorf("row %s of %s is in the table, and was reported as erased", r.id, r.person)
		case n == 0 && !w.asked[r.person]:
			lost++
		}
	}
	for id := range w.sinks {
		st, _ := w.b.Sink(id).Stats()
		damaged += st.Damaged.Rows
	}
	if lost > damaged {
		t.Errorf("%d rows of people who were not erased are lost, and %d rows are damaged", lost, damaged)
	}
	verify(t, w.b)
	closeBuffer(t, w.b)
}
