package erase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/kept"
)

// erasedAtOnce is how many sinks wait for their files at once.
const erasedAtOnce = 16

// eraseWaiting erases rows on their way.
func (er *Erasure) eraseWaiting(ctx context.Context) error {
	if err := er.Buffer.Sync(ctx); err != nil {
		return err
	}
	until := time.Now().Add(er.match.Wait)
	var (
		mu       sync.Mutex
		group    sync.WaitGroup
		problems []error
	)
	turns := make(chan struct{}, erasedAtOnce)
	for _, s := range er.Buffer.Stats().Sinks {
		if source, _, _ := strings.Cut(s.ID, "/"); !er.wants(source) || !slices.ContainsFunc(s.Files, waits) {
			continue
		}
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			p := Place{Place: PlaceWaiting, Name: s.ID}
			err := er.eraseSink(ctx, until, s.ID, &p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				problems = append(problems, fmt.Errorf("rows of %s: %w", s.ID, err))
			}
			if p.Searched > 0 {
				if source, sink, _ := strings.Cut(s.ID, "/"); sink != kept.ArchiveSink {
					p.Note = strings.TrimSpace(p.Note + " " + er.match.blind(er.rules(source, sink)))
				}
				er.add(p)
			}
		})
	}
	group.Wait()
	return errors.Join(problems...)
}

// waits reports whether a file has rows that are not in their table.
func waits(f buffer.FileStats) bool {
	switch f.State {
	case buffer.FileImported, buffer.FileExpired, buffer.FileDiscarded:
		return false
	}
	return true
}

// eraseSink erases rows of a sink that wait. It waits no longer than until a time.
func (er *Erasure) eraseSink(ctx context.Context, until time.Time, id string, p *Place) error {
	source, sink, _ := strings.Cut(id, "/")
	selects := er.selects(source, sink)
	if er.match.DryRun {
		return er.scan(ctx, id, p, selects)
	}
	if sink != kept.ArchiveSink {
		res, err := er.Buffer.Sink(id).EraseRows(ctx, until, selects)
		p.Searched, p.Found, p.Erased, p.Moved = res.Rows, res.Found, res.Erased, res.Moved
		if res.Marked > 0 {
			p.Note = fmt.Sprintf("%d rows will never reach their table. They leave staging when its target responds.", res.Marked)
		}
		if res.Why != nil {
			p.Note = strings.TrimSpace(p.Note + " Why rows wait: " + cutNote(res.Why))
		}
		return err
	}
	// Raw records go to the archive, which is searched later.
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	flushed := er.host.FlushArchive(wait, source)
	if flushed == nil {
		return nil
	}
	p.Note = "Why rows wait: " + cutNote(flushed)
	return er.scan(ctx, id, p, selects)
}

// selects returns what selects the rows of a sink.
func (er *Erasure) selects(source, sink string) func(t driver.Table, cells [][]byte) bool {
	if sink != kept.ArchiveSink {
		rules := er.rules(source, sink)
		return func(t driver.Table, cells [][]byte) bool { return er.match.row(t.Columns, cells, rules) }
	}
	return func(_ driver.Table, cells [][]byte) bool {
		rec, _, err := kept.ParseRow(cells)
		if err != nil || rec == nil {
			return false
		}
		defer rec.Release()
		found, _ := er.match.record(rec)
		return found
	}
}

// scan counts rows of a sink that wait.
func (er *Erasure) scan(ctx context.Context, id string, p *Place, selects func(t driver.Table, cells [][]byte) bool) error {
	st, _ := er.Buffer.Sink(id).Stats()
	tables := map[string]driver.Table{}
	for _, f := range st.Files {
		if waits(f) {
			tables[f.ID] = f.Table
		}
	}
	for _, sl := range er.Buffer.Sink(id).Slices() {
		table, ok := tables[sl.FileID]
		if !ok {
			continue
		}
		err := er.Buffer.ReadSlice(ctx, sl.ID, func(cells [][]byte) error {
			p.Searched++
			if selects(table, cells) {
				p.Found++
			}
			return nil
		})
		if err != nil && !errors.Is(err, buffer.ErrUnknownSlice) { // else its file has ended
			return err
		}
	}
	return nil
}
