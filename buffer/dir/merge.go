package dir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// Merge implements [parts.Format]. It leaves out parts with another header than the newest one, because the table had other columns.
func (csvFormat) Merge(ctx context.Context, store *parts.Store, d parts.Definition, dir string, sources []parts.Part) (parts.Merged, error) {
	newest := sources[len(sources)-1]
	p, err := openPart(store, d, filepath.Join(dir, newest.Path()))
	if err != nil {
		return parts.Merged{}, err
	}
	if err := p.file.Close(); err != nil {
		return parts.Merged{}, err
	}
	m := &merger{store: store, d: d, header: p.header}
	temp, err := store.StageFile(ctx, parts.MergeID, func(w io.Writer) error {
		for _, s := range sources {
			if err := m.append(w, dir, s); err != nil {
				return fmt.Errorf("%s: %w", s.Path(), err)
			}
		}
		return nil
	})
	if err != nil {
		return parts.Merged{}, err
	}
	if len(m.taken) < 2 {
		return parts.Merged{}, store.FS.Remove(temp)
	}
	return parts.Merged{Temp: temp, Taken: m.taken, Files: m.files}, nil
}

// merger copies the rows of parts, in their stored form.
type merger struct {
	store  *parts.Store
	d      parts.Definition
	header []byte
	size   int64 // written
	files  []parts.Content
	taken  []parts.Part
}

func (m *merger) append(w io.Writer, dir string, s parts.Part) error {
	p, err := openPart(m.store, m.d, filepath.Join(dir, s.Path()))
	if err != nil {
		return err
	}
	defer p.file.Close()
	w = &countingWriter{w: w, n: &m.size}
	if string(p.header) != string(m.header) {
		return nil
	}
	if m.size == 0 {
		if err := pack(w, m.header, p.gzip); err != nil {
			return err
		}
	}
	shift := m.size - p.size
	start := m.size
	p.in = bufio.NewReader(&teeReader{io.NopCloser(p.in), w})
	plain, err := p.rows()
	if err != nil {
		return err
	}
	var check rowChecker
	_, err = io.Copy(&check, plain)
	if err := errors.Join(err, plain.Close(), check.end()); err != nil {
		return err
	}
	if !s.Merged() {
		m.files = append(m.files, parts.Content{ID: s.First, Rows: check.rows, Offset: start, Length: m.size - start})
	} else {
		files, err := m.store.Contents(dir, s)
		if err != nil {
			return err
		}
		var rows int64
		for _, f := range files {
			rows += f.Rows
			f.Offset += shift
			m.files = append(m.files, f)
		}
		if rows != check.rows {
			return driver.Permanent(fmt.Errorf("it has %d rows, but %d are recorded: restore it", check.rows, rows))
		}
	}
	if s.Rows >= 0 && s.Rows != check.rows {
		return driver.Permanent(fmt.Errorf("it has %d rows, its name tells %d: restore it", check.rows, s.Rows))
	}
	m.taken = append(m.taken, s)
	return nil
}

type countingWriter struct {
	w io.Writer
	n *int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	*c.n += int64(n)
	return n, err
}
