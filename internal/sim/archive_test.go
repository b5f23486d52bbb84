package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

// In some runs the source x keeps its raw records, and a run of SinkHandle.Replay brings them into the sink z/d, which has its own clients.

const (
	archived   = "x"
	archiveID  = archived + "/" + forebay.ArchiveSink
	backfillID = "z/d"
)

// archives tells whether the run has an archive.
func (r *run) archives() bool {
	return r.keeps() && r.engine() && !r.opts.KeepFormat && chance(r.seed, 0.5, "archive")
}

func isArchive(id string) bool { return strings.HasSuffix(id, "/"+forebay.ArchiveSink) }

// nameOf is the name of a row. Rows of an archive have it in the body.
func nameOf(cells []string) string {
	if len(cells) != 3 || !strings.HasSuffix(cells[0], "Z") {
		return cells[0]
	}
	var event struct{ ID string }
	if err := json.Unmarshal([]byte(cells[2]), &event); err != nil {
		return cells[2]
	}
	return event.ID
}

// archivedFile is a file in the archive. An import makes an object for each hour of arrival.
type archivedFile struct {
	order   int // of the imports, from 1
	objects map[string][][]string
}

// archive is the [forebay.Archive] of a process.
type archive struct{ *drivers }

func (a archive) Ensure(ctx context.Context, t driver.Table) error {
	return a.call(ctx, "archive", "ensure "+t.ID, func() error { return nil })
}

func (a archive) Import(ctx context.Context, f *driver.File) (err error) {
	defer func() {
		if err != nil {
			a.o.failedFirst(f.ID)
		}
	}()
	return a.call(ctx, "archive", "import "+f.ID, func() error {
		rows, err := readFile(ctx, f)
		if err != nil {
			return err
		}
		return a.do(func() error {
			if int64(len(rows)) != f.Rows || f.Rows == 0 {
				a.o.breachf("file %s of the archive: %d rows, %d were announced", f.ID, len(rows), f.Rows)
			}
			if have := a.o.files[f.ID]; have != nil {
				if !sameRows(have.rows, rows) {
					a.o.breachf("file %s of the archive was imported again with different rows", f.ID)
				}
				return nil
			}
			kept := archivedFile{len(a.o.archive) + 1, map[string][][]string{}}
			for _, cells := range rows {
				object := cells[0][:len("2006-01-02T15")] + "/" + f.ID
				kept.objects[object] = append(kept.objects[object], cells)
			}
			a.o.archive[f.ID] = kept
			a.o.files[f.ID] = &imported{f.Table.ID, f.Table.Names(), rows}
			return nil
		})
	})
}

// Objects returns more than the objects of the time range, as the contract allows.
func (a archive) Objects(ctx context.Context, source string, _, _ time.Time) (names []string, err error) {
	err = a.call(ctx, "archive", "objects of "+source, func() error {
		return a.do(func() error {
			for _, f := range a.o.archive {
				names = append(names, sortedKeys(f.objects)...)
			}
			slices.Sort(names)
			return nil
		})
	})
	return names, err
}

func (a archive) Open(ctx context.Context, _, object string) (rc io.ReadCloser, err error) {
	_, file, _ := strings.Cut(object, "/")
	err = a.call(ctx, "archive", "object "+file, func() error {
		return a.do(func() error {
			rows := a.o.archive[file].objects[object]
			if rows == nil {
				return fmt.Errorf("object %s: %w", object, fs.ErrNotExist)
			}
			if a.o.reads != nil {
				a.o.reads()
				a.o.reads = nil
			}
			var text bytes.Buffer
			text.WriteString("\"received\",\"head\",\"body\"\n")
			for _, cells := range rows {
				for i, cell := range cells {
					end := ","
					if i == len(cells)-1 {
						end = "\n"
					}
					text.WriteString(`"` + strings.ReplaceAll(cell, `"`, `""`) + `"` + end)
				}
			}
			rc = io.NopCloser(&text)
			return nil
		})
	})
	return rc, err
}

// backfill is the run of the replay of the archive.
type backfill struct {
	begun bool
	// order is the last file that the archive had before the first call.
	order int
	opts  forebay.ReplayOptions
	done  forebay.ReplayProgress
}

// beginBackfill draws the options of the run.
func (r *run) beginBackfill() {
	b := &r.backfill
	if b.begun {
		return
	}
	b.begun = true
	b.opts = forebay.ReplayOptions{Run: "again", Archived: archived, RowsPerSecond: pick[float64](r.more, 0, 0, 2, 50)}
	if r.more.IntN(4) == 0 {
		b.opts.From = time.Now().Add(-pick(r.more, time.Minute, time.Hour, 24*time.Hour))
	}
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	b.order = len(r.out.archive)
}

// goOn calls the replay of the archive, which resumes where an earlier call ended.
func (r *run) goOn(ctx context.Context, g *generation) error {
	l := g.level.(*engineLevel)
	r.sum.add("archive: calls of the replay", 1)
	p, err := l.Sink("z", "d").Replay(ctx, r.backfill.opts)
	if g.dead.Load() || err != nil && p.Run == "" { // it has not come to where the run is
		return err
	}
	if sum := p.Stored + p.Rejected + p.Quarantined + p.Skipped; sum != p.Records || p.Skipped+p.Gone > 0 {
		r.t.Errorf("the replay of the archive has %+v", p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.backfill.done; p.Records < last.Records || last.Done() && p != last {
		r.t.Errorf("the replay of the archive was at %+v, and is at %+v", last, p)
	}
	if r.backfill.done = p; err == nil && !p.Done() {
		r.t.Errorf("the replay of the archive has ended at %+v", p)
	}
	return err
}

// backfillStep lets the operator begin the replay of the archive, or resume it.
func (r *run) backfillStep() {
	r.out.mu.Lock()
	empty := len(r.out.archive) == 0
	r.out.mu.Unlock()
	if empty && !r.backfill.begun {
		r.tell("flush the archive")
		r.beside(func(g *generation) {
			ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
			defer cancel()
			_ = g.level.flush(ctx, archiveID)
		})
		return
	}
	r.beginBackfill()
	timeout := pick(r.more, 10*time.Millisecond, time.Second, time.Minute, time.Hour)
	begins := func() {}
	switch r.more.IntN(5) {
	case 0:
		begins = r.cutSoon()
	case 1: // while the replay stores what it has read
		cut := r.cutSoon()
		begins = func() {
			r.out.mu.Lock()
			defer r.out.mu.Unlock()
			r.out.reads = cut
		}
	case 2:
		begins = r.cutWithin(60)
	case 3:
		begins = r.failSync(r.more.IntN(6))
	}
	r.tell("replay the archive, %+v", r.backfill.opts)
	r.beside(func(g *generation) {
		ctx, cancel := context.WithTimeout(g.ctx, timeout)
		defer cancel()
		begins()
		if err := r.goOn(ctx, g); err != nil {
			r.tell("replay of the archive: %v", err)
		}
	})
}

// endBackfill completes the replay, and notes the rows that it must have stored.
func (r *run) endBackfill() {
	if !r.archives() {
		return
	}
	p := r.plans[backfillID]
	p.disabled, p.gone = false, false
	delete(r.disabled, "z")
	r.define(backfillID)
	r.beginBackfill()
	for try := 0; ; try++ {
		err := r.goOn(r.gen.ctx, r.gen)
		var full *buffer.OverloadError
		switch {
		case err == nil:
			r.noteBackfill()
			return
		case errors.Is(err, forebay.ErrUnknownArchive) && r.archivesNothing():
			return
		case try < 100 && errors.Is(err, forebay.ErrUnknownSource): // the last definition is one that the table cannot follow
			r.draw(backfillID)
			r.define(backfillID)
		case try < 100 && errors.As(err, &full) && full.Resource == "quarantine":
			r.asked(backfillID, nil, true, func(x *row) { x.discarded = true })
			if _, err := r.gen.level.discardKept(r.gen.ctx, backfillID, nil, true); err != nil {
				r.t.Errorf("make room in the quarantine: %v", err)
			}
		default:
			r.t.Errorf("the replay of the archive does not end: %v", err)
			return
		}
	}
}

// archivesNothing reports whether the archive is empty and no source fills it.
func (r *run) archivesNothing() bool {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	for _, f := range r.out.archive {
		if len(f.objects) > 0 {
			return false
		}
	}
	e, known := r.gen.level.(*engineLevel).Source(archived)
	return !known || e.Archive == nil
}

// noteBackfill notes the rows that the replay must have stored as acknowledged. Their records were in the archive before it began. It may have
// read records that arrived later.
func (r *run) noteBackfill() {
	p := r.backfill.done
	r.sum.add("archive: records replayed", p.Records)
	least, most := int64(0), int64(0)
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.out.archive {
		for _, rows := range f.objects {
			for _, cells := range rows {
				at, err := time.Parse("2006-01-02T15:04:05.000000Z", cells[0])
				if err != nil {
					r.t.Errorf("the archive has the time %q", cells[0])
				}
				if at.Before(p.From.Truncate(time.Microsecond)) || !at.Before(p.To) {
					continue
				}
				most++
				if f.order > r.backfill.order || !at.After(p.From) || !at.Before(p.To.Add(-time.Microsecond)) {
					continue
				}
				least++
				x := r.rows[rowKey(backfillID, nameOf(cells))]
				if x == nil || len(cells[2]) > maxRow/2 || x.bare || r.misfit(nameOf(cells)) {
					continue // it was rejected, unless a definition had a place for it
				}
				x.fate = acked
				r.sum.add("archive: rows that the replay must have stored", 1)
			}
		}
	}
	if p.Records < least || p.Records > most {
		r.t.Errorf("the replay of the archive has read %d records, there were %d before it began and there are %d now", p.Records, least, most)
	}
}

// misfit tells whether a record has a value that some definitions reject.
func (r *run) misfit(name string) bool {
	return r.typed() && slices.ContainsFunc(typedFields, func(f *field) bool {
		_, cell := f.value(r.seed, name)
		return cell == misfits || cell == null && f.name == "s"
	})
}

// checkArchived checks a row of the archive.
func (r *run) checkArchived(x *row, name string, cells []string) {
	if len(cells) != 3 || sumOf([]byte(cells[2])) != x.body || !strings.Contains(cells[1], `"v":1`) {
		r.t.Errorf("record %s stands in the archive as %.80q", name, cells)
	}
}
