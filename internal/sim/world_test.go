package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// outside is the world around the processes that survives them, that is, staging and the target. Both keep the contracts of
// [driver.Staging] and [driver.Target], and check that the buffer keeps its side.
type outside struct {
	seed uint64
	// faulty is the rate of failing calls. hang says that some hang instead until their context ends.
	faulty float64
	hang   bool

	mu      sync.Mutex
	objects map[string]stored    // by id
	ever    map[string]everPut   // every object that was ever put, by id
	refused map[string]time.Time // when the import of a file failed first, by file id
	tables  map[string]*table
	files   map[string]*imported // by file id
	tries   map[string]int       // calls so far, by name
	down    map[string]time.Time // end of the outage, by level
	breach  []string             // the buffer's violations
	quiet   bool                 // no more faults
	// voided are the ids that the target has ruled out. rule is the rule by which it refuses rows now, strictest bounds it (see refusalRates).
	voided          map[string]bool
	rule, strictest int
	naming          naming
	// trap is called the next time that the target refuses rows, or rules out an import.
	trap    func()
	reads   func()                  // called the next time that an object of the archive is read
	archive map[string]archivedFile // by file id
	sum     *summary
	tell    func(format string, args ...any) // the story, nil without a listener
	// trace is a sum over all calls and their times, equal where two runs of a seed went the same way, whatever the order
	// of calls that began at the same time.
	trace uint64
}

// everPut is what an object had when it was put.
type everPut struct {
	file string
	rows [][]string
}

type stored struct {
	obj  driver.Object
	data []byte
}

type table struct{ columns []datatype.Column }

type imported struct {
	table   string
	columns []string
	rows    [][]string
}

func newOutside(seed uint64, sum *summary) *outside {
	return &outside{
		seed: seed, objects: map[string]stored{}, ever: map[string]everPut{}, tables: map[string]*table{},
		files: map[string]*imported{}, tries: map[string]int{}, down: map[string]time.Time{},
		refused: map[string]time.Time{}, voided: map[string]bool{}, archive: map[string]archivedFile{}, sum: sum,
	}
}

// clockSet moves stored times from the old clock to the new clock.
func (o *outside) clockSet(was, is time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for level, end := range o.down {
		o.down[level] = is.Add(end.Sub(was))
	}
	// What lies in the future counts as now, so rows are kept for longer.
	for id, first := range o.refused {
		if first.After(is) {
			o.refused[id] = is
		}
	}
}

func (o *outside) breachf(format string, args ...any) {
	o.breach = append(o.breach, fmt.Sprintf(format, args...))
}

// chance decides by the seed and the name of the decision.
func chance(seed uint64, p float64, name string) bool { return share(seed, name) < p }

// share is a number from 0 to 1, by the seed and the name of the decision.
func share(seed uint64, name string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, name)
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// drivers is the connection of one process to the outside. Once the process dies no call gets through.
type drivers struct {
	o *outside
	g *generation
}

var (
	errDown   = errors.New("the other side is down")
	errFault  = errors.New("the call failed")
	errAnswer = errors.New("the answer was lost")
	errDead   = errors.New("the process is dead")
)

// call runs an effect on the outside between two chances to fail. The name must not depend on the data directory's
// random part.
func (d *drivers) call(ctx context.Context, level, name string, effect func() error) (err error) {
	if d.o.tell != nil {
		call := name
		defer func() { d.o.tell("%s: %v", call, err) }()
	}
	if _, rest, ok := strings.Cut(name, "-"); ok {
		name = level + rest
	}
	o := d.o
	o.mu.Lock()
	o.tries[name]++
	name = fmt.Sprintf("%s try %d", name, o.tries[name])
	faulty, down := o.faulty, time.Now().Before(o.down[level])
	if o.quiet {
		faulty, down = 0, false
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s at %d", name, time.Now().UnixNano())
	o.trace += h.Sum64()
	o.mu.Unlock()
	if down {
		o.sum.add("drivers: call during an outage", 1)
		return errDown
	}
	if chance(o.seed, faulty/3, "before "+name) {
		o.sum.add("drivers: fails before", 1)
		return errFault
	}
	if o.hang && chance(o.seed, faulty/3, "hang "+name) {
		o.sum.add("drivers: hangs", 1)
		<-ctx.Done()
		return ctx.Err()
	}
	if chance(o.seed, faulty/2, "slow "+name) {
		o.sum.add("drivers: slow", 1)
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := effect(); err != nil {
		return err
	}
	if chance(o.seed, faulty/3, "after "+name) {
		o.sum.add("drivers: fails after", 1)
		return errAnswer
	}
	return nil
}

// do runs fn with the outside locked, unless the process is dead.
func (d *drivers) do(fn func() error) error {
	d.o.mu.Lock()
	defer d.o.mu.Unlock()
	if d.g.dead.Load() {
		return errDead
	}
	return fn()
}

func (d *drivers) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	return d.call(ctx, "staging", "put "+obj.ID, func() error {
		var data bytes.Buffer
		if chance(d.o.seed, 0.5, "reader "+obj.ID[strings.Index(obj.ID, "-"):]) {
			rc, err := src.Open()
			if err != nil {
				return err
			}
			defer rc.Close()
			if _, err := io.Copy(&data, rc); err != nil {
				return err
			}
		} else if _, err := src.WriteTo(&data); err != nil {
			return err
		}
		rows, err := decodeRows(obj.Encoding, io.NopCloser(bytes.NewReader(data.Bytes())))
		if err != nil {
			return fmt.Errorf("put %s: %w", obj.ID, err)
		}
		return d.do(func() error {
			if int64(len(rows)) != obj.Rows {
				d.o.breachf("object %s: %d rows were put, %d were announced", obj.ID, len(rows), obj.Rows)
			}
			if before, ok := d.o.ever[obj.ID]; ok && !sameRows(before.rows, rows) {
				d.o.breachf("object %s was put with different rows:\nbefore %s\nnow    %s", obj.ID, before.rows, rows)
			}
			d.o.ever[obj.ID] = everPut{obj.FileID, rows}
			d.o.objects[obj.ID] = stored{obj, data.Bytes()}
			return nil
		})
	})
}

func (d *drivers) Open(ctx context.Context, obj driver.Object) (rc io.ReadCloser, err error) {
	err = d.call(ctx, "staging", "open "+obj.ID, func() error {
		return d.do(func() error {
			s, ok := d.o.objects[obj.ID]
			if !ok {
				return fmt.Errorf("object %s: %w", obj.ID, fs.ErrNotExist)
			}
			rc = io.NopCloser(bytes.NewReader(s.data))
			return nil
		})
	})
	if err != nil {
		d.o.failedFirst(obj.FileID) // it is for an import, or to keep rows that the target has refused
		return nil, err
	}
	return rc, nil
}

func (d *drivers) Delete(ctx context.Context, objs ...driver.Object) error {
	for _, obj := range objs {
		err := d.call(ctx, "staging", "delete "+obj.ID, func() error {
			return d.do(func() error { delete(d.o.objects, obj.ID); return nil })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *outside) ensure(t driver.Table) error {
	have := o.tables[t.ID]
	if have == nil {
		o.tables[t.ID] = &table{slices.Clone(t.Columns)}
		return nil
	}
	return o.fit(have, t)
}

func (d *drivers) Ensure(ctx context.Context, t driver.Table) error {
	return d.call(ctx, "target", "ensure "+t.ID, func() error {
		return d.do(func() error { return d.o.ensure(t) })
	})
}

func (d *drivers) Extend(ctx context.Context, t driver.Table) error { return d.Ensure(ctx, t) }

// failedFirst notes that an import of a file fails, if none did before.
func (o *outside) failedFirst(file string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.refused[file]; !again {
		o.refused[file] = time.Now()
	}
}

// Import reads before it looks whether the file is known, as a target without transactions must.
func (d *drivers) Import(ctx context.Context, f *driver.File) (err error) {
	defer func() {
		if err != nil {
			d.o.failedFirst(fileOf(f.ID))
		}
	}()
	return d.call(ctx, "target", "import "+f.ID, func() error {
		if chance(d.o.seed, 0.3, "progress "+f.ID[strings.Index(f.ID, "-"):]) {
			if err := f.SaveProgress(ctx, []byte("job of "+f.ID)); err != nil {
				return err
			}
		}
		if f.Progress != nil && string(f.Progress) != "job of "+f.ID {
			return d.do(func() error { d.o.breachf("file %s: progress %q", f.ID, f.Progress); return nil })
		}
		rows, err := readFile(ctx, f)
		if err != nil {
			return err
		}
		return d.do(func() error {
			if err := d.o.ensure(f.Table); err != nil {
				return err
			}
			if int64(len(rows)) != f.Rows || f.Rows == 0 {
				d.o.breachf("file %s: %d rows, %d were announced", f.ID, len(rows), f.Rows)
			}
			if have := d.o.files[f.ID]; have != nil {
				if !sameRows(have.rows, rows) {
					d.o.breachf("file %s was imported again with different rows", f.ID)
				}
				return nil
			}
			if d.o.voided[f.ID] {
				return driver.Permanent(fmt.Errorf("import %s: %w", f.ID, driver.ErrVoid))
			}
			if err := d.o.refusals(rows); err != nil {
				return err
			}
			d.o.files[f.ID] = &imported{f.Table.ID, f.Table.Names(), rows}
			return nil
		})
	})
}

func readFile(ctx context.Context, f *driver.File) (rows [][]string, err error) {
	for _, obj := range f.Slices {
		rc, err := f.OpenRows(ctx, obj)
		if err != nil {
			return nil, err
		}
		part, err := readCSV(rc)
		rc.Close()
		if err != nil {
			return nil, err
		}
		rows = append(rows, part...)
	}
	return rows, nil
}

func (d *drivers) CountFile(_ context.Context, _ driver.Table, id string) (n int64, err error) {
	err = d.do(func() error {
		if f := d.o.files[id]; f != nil {
			n = int64(len(f.rows))
		}
		return nil
	})
	return n, err
}

func sameRows(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal[[]string]) }

func decodeRows(e driver.Encoding, src io.ReadCloser) ([][]string, error) {
	rc, err := driver.Decode(e, src)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return readCSV(rc)
}

// readCSV reads rows as a target must. An empty cell without quotes is NULL.
func readCSV(r io.Reader) (rows [][]string, err error) {
	data, err := io.ReadAll(r)
	text := string(data)
	for row := []string(nil); text != "" && err == nil; {
		cell := null
		if strings.HasPrefix(text, `"`) {
			var quoted strings.Builder
			for strings.HasPrefix(text, `"`) {
				inner, rest, closed := strings.Cut(text[1:], `"`)
				if !closed {
					return nil, fmt.Errorf("row %d: a cell is cut off", len(rows))
				}
				if quoted.WriteString(inner); strings.HasPrefix(rest, `"`) {
					quoted.WriteByte('"')
				}
				text = rest
			}
			cell = quoted.String()
		} else if end := strings.IndexAny(text, ",\n"); end > 0 {
			cell, text = text[:end], text[end:]
		}
		row = append(row, cell)
		if text == "" || text[0] != ',' && text[0] != '\n' {
			return nil, fmt.Errorf("row %d ends with %.20q", len(rows), text)
		}
		if text[0] == '\n' {
			rows, row = append(rows, row), nil
		}
		text = text[1:]
	}
	return rows, err
}
