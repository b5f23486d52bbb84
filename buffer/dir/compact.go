package dir

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
)

// mergeFrom is how many parts of about one size are merged. A row is rewritten at most log8(MergeTo / size of a part) times.
const mergeFrom = 8

// Compact implements [buffer.Compactor]: it merges small parts and removes old ones, as the options say. It is safe beside
// imports and readers, and after a crash at any point: what it leaves half done is not visible and is removed later. While
// another process compacts the table it does nothing.
func (t *TableDir) Compact(ctx context.Context, table buffer.Table) error {
	if err := t.compact(ctx, table.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("table directory: compact %q: %w", table.ID, err)
	}
	return nil
}

func (t *TableDir) compact(ctx context.Context, table string) error {
	linked, err := t.isLink(table)
	if err != nil || !linked && t.opts.MergeTo == 0 && t.opts.KeepFor == 0 {
		return err
	}
	if _, err := t.definition(table); err != nil {
		return err
	}
	if linked || t.opts.MergeTo > 0 {
		if err := t.ensureDir(filepath.Join(t.root, versionsDir)); err != nil {
			return err
		}
		unlock, ok, err := t.fs.Lock(t.lockPath(table, "compact"), true)
		if err != nil || !ok {
			return err
		}
		defer unlock.Close()
	}
	if t.opts.KeepFor > 0 {
		if err := t.removeOld(ctx, table); err != nil {
			return err
		}
	}
	for again := t.opts.MergeTo > 0; again; {
		if again, err = t.mergeSome(ctx, table); err != nil {
			return err
		}
	}
	if linked, err = t.isLink(table); err != nil || !linked {
		return err
	}
	return t.removeVersions(ctx, table)
}

// removeOld removes the parts that are older than KeepFor.
func (t *TableDir) removeOld(ctx context.Context, table string) error {
	linked, err := t.isLink(table)
	if err != nil {
		return err
	}
	if linked { // else a switch could copy a part that goes
		unlock, err := t.lock(ctx, table, true)
		if err != nil {
			return err
		}
		defer unlock.Close()
	}
	dir := t.Path(table)
	parts, err := t.parts(dir)
	if err != nil {
		return err
	}
	before := t.now().Add(-t.opts.KeepFor)
	changed := make(map[string]bool)
	for _, p := range parts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if old, err := t.isOld(dir, p, before); err != nil {
			return err
		} else if !old {
			continue
		}
		changed[p.folder] = true
		if err := t.fs.Remove(filepath.Join(dir, p.path())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if p.merged() { // second: alone it names no rows
			if err := t.fs.Remove(filepath.Join(dir, p.contentsPath())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for folder := range changed {
		if folder != "" {
			_ = t.fs.Remove(filepath.Join(dir, folder)) // fails unless it is empty
			folder = ""
		}
		if err := t.fs.SyncDir(filepath.Join(dir, folder)); err != nil {
			return err
		}
	}
	return nil
}

func (t *TableDir) isOld(dir string, p part, before time.Time) (bool, error) {
	if day, err := time.Parse(time.DateOnly, strings.TrimPrefix(p.folder, dayPrefix)); err == nil {
		return !day.AddDate(0, 0, 1).After(before), nil
	}
	info, err := t.fs.Stat(filepath.Join(dir, p.path()))
	if errors.Is(err, fs.ErrNotExist) { // a reader has removed it
		return false, nil
	}
	return err == nil && !info.ModTime().After(before), err
}

// candidate is a part that may be merged.
type candidate struct {
	part
	size     int64
	modified time.Time
}

// mergeGroup tells which parts are merged with each other.
type mergeGroup struct {
	folder, extension string
	tier              int   // of the size
	age               int64 // so that old rows are not kept by new ones
}

// mergeSome makes one switch that merges parts, of at most MergeTo bytes in all. It reports whether there was anything to
// merge.
func (t *TableDir) mergeSome(ctx context.Context, table string) (bool, error) {
	dir, err := t.newest(table)
	if err != nil {
		return false, err
	}
	parts, d, err := t.describedParts(dir, table)
	if err != nil {
		return false, err
	}
	groups := make(map[mergeGroup][]candidate)
	for _, p := range parts {
		info, err := t.fs.Stat(filepath.Join(dir, p.path()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if checkID("file", p.first) != nil || !info.Mode().IsRegular() || info.Size() > t.opts.MergeTo/2 {
			continue
		}
		g := mergeGroup{folder: p.folder, extension: p.extension(), tier: bits.Len64(uint64(info.Size())) / 3}
		if t.opts.KeepFor > 0 && p.folder == "" {
			g.age = info.ModTime().UnixMicro() / max(t.opts.KeepFor.Microseconds()/8, 1)
		}
		groups[g] = append(groups[g], candidate{p, info.Size(), info.ModTime()})
	}
	c := change{add: make(map[string]string), remove: make(map[string]bool)}
	defer func() {
		for _, temp := range c.add {
			_ = t.fs.Remove(temp) // if it stays, the sweep removes it
		}
	}()
	left := t.opts.MergeTo
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b mergeGroup) int { return strings.Compare(a.folder, b.folder) }) {
		sources := groups[g]
		if len(sources) < mergeFrom {
			continue
		}
		var size int64
		n := 0
		for n < len(sources) && size+sources[n].size <= left {
			size += sources[n].size
			n++
		}
		if n < 2 {
			continue // with the next switch
		}
		left -= size
		if err := t.merge(ctx, dir, d, sources[:n], &c); err != nil {
			return false, err
		}
	}
	if len(c.add) == 0 {
		return false, nil
	}
	unlock, err := t.lock(ctx, table, true)
	if err != nil {
		return false, err
	}
	defer unlock.Close()
	for path := range c.remove {
		if strings.HasPrefix(filepath.Base(path), ".") {
			continue
		}
		// Somebody has deleted a part that was merged: its rows must not come back.
		if _, err := t.fs.Stat(filepath.Join(t.Path(table), path)); err != nil {
			return false, err
		}
	}
	return true, t.switchVersion(table, c)
}

// merge writes one part with the rows of several, and notes it and them in c. Parts with another header than the newest one
// are left out: the table had other columns.
func (t *TableDir) merge(ctx context.Context, dir string, d definition, sources []candidate, c *change) error {
	newest := sources[len(sources)-1]
	p, err := t.openPart(d, filepath.Join(dir, newest.path()))
	if err != nil {
		return err
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	m := &merger{t: t, d: d, header: p.header}
	temp, err := t.stage(ctx, "merge_", func(w io.Writer) error {
		for _, s := range sources {
			if err := m.append(w, dir, s); err != nil {
				return fmt.Errorf("%s: %w", s.path(), err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(m.taken) < 2 {
		return t.fs.Remove(temp)
	}
	merged := part{folder: sources[0].folder, first: m.files[0].ID, last: m.files[0].ID, files: len(m.files)}
	for _, f := range m.files {
		merged.first, merged.last = min(merged.first, f.ID), max(merged.last, f.ID)
	}
	merged.name = fmt.Sprintf("%s~%s~%d%s", merged.first, merged.last, merged.files, sources[0].extension())
	c.add[merged.path()] = temp
	if err := t.fs.Chtimes(temp, m.modified); err != nil { // it is as old as its newest rows
		return err
	}
	data, err := json.Marshal(contents{m.files})
	if err != nil {
		return err
	}
	list, err := t.stage(ctx, "merge_", func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	c.add[merged.contentsPath()] = list
	for _, p := range m.taken {
		c.remove[p.path()] = true
		if p.merged() {
			c.remove[p.contentsPath()] = true
		}
	}
	return nil
}

// merger copies the rows of parts, in their stored form.
type merger struct {
	t        *TableDir
	d        definition
	header   []byte
	size     int64 // written
	files    []content
	taken    []part
	modified time.Time
}

func (m *merger) append(w io.Writer, dir string, s candidate) error {
	p, err := m.t.openPart(m.d, filepath.Join(dir, s.path()))
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
	if !s.merged() {
		m.files = append(m.files, content{ID: s.first, Rows: check.rows, Offset: start, Length: m.size - start})
	} else {
		files, err := m.t.contents(dir, s.part)
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
			return buffer.Permanent(fmt.Errorf("it has %d rows, but %d are recorded: restore it", check.rows, rows))
		}
	}
	if s.rows >= 0 && s.rows != check.rows {
		return buffer.Permanent(fmt.Errorf("it has %d rows, its name tells %d: restore it", check.rows, s.rows))
	}
	m.taken = append(m.taken, s.part)
	if s.modified.After(m.modified) {
		m.modified = s.modified
	}
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
