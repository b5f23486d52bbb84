package erase

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/kept"
)

// A record is erased in an archive by one replacement of its object. The new object has a row in place of each erased one because replays count rows,
// and an import that is repeated finds the object. So a crash leaves the old object or the new one, and a later call has nothing to do in the new
// one. The design that lost leaves the row out. A run that was interrupted after it would then skip records of other people.

// everAfter is after the arrival of every record.
var everAfter = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)

func sourceOfArchive(name string) string {
	source, _, _ := strings.Cut(name, ".")
	return source
}

// findArchives lists the archives that the engine's archive has, and the archives of the sources.
func (er *Erasure) findArchives(ctx context.Context) error {
	for _, s := range er.Buffer.Stats().Sinks {
		if strings.HasSuffix(s.ID, "/"+kept.ArchiveSink) {
			er.archives = append(er.archives, s.Table.ID)
		}
	}
	for _, s := range er.host.Sources() {
		er.archives = append(er.archives, s.Archive)
	}
	var err error
	if a, ok := er.Archive.(Replacer); ok {
		var all []string
		all, err = a.Archives(ctx)
		er.archives = append(er.archives, all...)
	}
	slices.Sort(er.archives)
	er.archives = slices.DeleteFunc(slices.Compact(er.archives), func(name string) bool { return name == "" })
	return err
}

// eraseArchives erases raw records.
func (er *Erasure) eraseArchives(ctx context.Context) error {
	if er.Archive == nil {
		return nil
	}
	var problems []error
	for _, name := range er.archives {
		if !er.wants(sourceOfArchive(name)) {
			continue
		}
		p := Place{Place: PlaceArchive, Name: name}
		if err := er.eraseArchive(ctx, name, &p); err != nil {
			p.Note = strings.TrimSpace(p.Note + " It was not searched to its end.")
			problems = append(problems, fmt.Errorf("archive %s: %w", name, err))
		}
		if p.Searched > 0 || p.Note != "" {
			er.add(p)
		}
	}
	return errors.Join(problems...)
}

func (er *Erasure) eraseArchive(ctx context.Context, name string, p *Place) error {
	objects, err := er.Archive.Objects(ctx, name, time.Time{}, everAfter)
	if err != nil {
		return err
	}
	var bad failures
	for _, object := range objects {
		err := er.eraseObject(ctx, name, object, p)
		if err == nil || errors.Is(err, fs.ErrNotExist) { // the retention has removed it
			bad.row = 0
			continue
		}
		if bad.add(fmt.Errorf("object %s: %w", object, err)); bad.many() || ctx.Err() != nil {
			break
		}
	}
	return bad.err()
}

// eraseObject looks through an object, and replaces it if it has records of the person.
func (er *Erasure) eraseObject(ctx context.Context, name, object string, p *Place) error {
	var o Place
	if err := er.rewrite(ctx, name, object, nil, &o); err != nil {
		return err
	}
	p.Searched += o.Searched
	p.Found += o.Found
	p.Unreadable += o.Unreadable
	if o.Found == 0 || er.match.DryRun {
		return nil
	}
	replacer, ok := er.Archive.(Replacer)
	if !ok {
		return errNoReplace
	}
	// A source that is erased as a whole meanwhile does not come back.
	unlock, err := er.host.LockArchive(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var again Place
		err := er.rewrite(ctx, name, object, w, &again)
		if err == nil && again.Found != o.Found {
			err = fmt.Errorf("it had %d such records before, and has %d now: another process replaces it", o.Found, again.Found)
		}
		_ = w.CloseWithError(err)
	}()
	err = replacer.Replace(ctx, name, object, r)
	_ = r.CloseWithError(errors.New("the call of Replace that these rows belong to is over"))
	<-done
	if err == nil {
		p.Erased += o.Found
	}
	return err
}

// rewrite reads an object, counts, and writes the rows of the new object to w, if that is not nil.
func (er *Erasure) rewrite(ctx context.Context, name, object string, w io.Writer, p *Place) error {
	src, err := er.Archive.Open(ctx, name, object)
	if err != nil {
		return err
	}
	defer src.Close()
	var out *bufio.Writer
	write := func(cells [][]byte) error {
		if out == nil {
			return nil
		}
		_, err := out.Write(kept.AppendCells(nil, cells))
		return err
	}
	if w != nil {
		out = bufio.NewWriterSize(w, 64<<10)
	}
	in := driver.NewRowReader(src)
	if !in.Next() {
		return cmp.Or(in.Err(), errors.New("it has no row with the names of the columns"))
	}
	if err := write(in.Cells()); err != nil {
		return err
	}
	for row := 0; in.Next(); row++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		cells := in.Cells()
		rec, _, err := kept.ParseRow(cells)
		if err != nil {
			return fmt.Errorf("record %d: %w", row, err)
		}
		if rec != nil {
			p.Searched++
			found, readable := er.match.record(rec)
			rec.Release()
			if !readable {
				p.Unreadable++
			}
			if found {
				p.Found++
				cells = kept.ErasedRow(cells)
			}
		}
		if err := write(cells); err != nil {
			return err
		}
	}
	if in.Err() != nil || out == nil {
		return in.Err()
	}
	return out.Flush()
}
