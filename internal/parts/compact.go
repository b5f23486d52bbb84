package parts

import (
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

// MergeFrom is how many parts of about one size are merged. A row is rewritten at most log8(MergeTo / size of a part) times.
const MergeFrom = 8

// Compact implements [buffer.Compactor]: it merges small parts and removes old ones, as the options say. It is safe beside
// imports and readers, and after a crash at any point: what it leaves half done is not visible and is removed later. While
// another process compacts the table it does nothing.
func (t *Tables) Compact(ctx context.Context, table buffer.Table) error {
	if err := t.compact(ctx, table.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: compact %q: %w", t.Driver, table.ID, err)
	}
	return nil
}

func (t *Tables) compact(ctx context.Context, table string) error {
	linked, err := t.IsLink(table)
	if err != nil || !linked && t.MergeTo == 0 && t.KeepFor == 0 {
		return err
	}
	if _, err := t.definition(table); err != nil {
		return err
	}
	if linked || t.MergeTo > 0 {
		if err := t.EnsureDir(filepath.Join(t.Root, VersionsDir)); err != nil {
			return err
		}
		unlock, ok, err := t.FS.Lock(t.lockPath(table, "compact"), true)
		if err != nil || !ok {
			return err
		}
		defer unlock.Close()
	}
	if t.KeepFor > 0 {
		if err := t.removeOld(ctx, table); err != nil {
			return err
		}
	}
	for again := t.MergeTo > 0; again; {
		if again, err = t.mergeSome(ctx, table); err != nil {
			return err
		}
	}
	if linked, err = t.IsLink(table); err != nil || !linked {
		return err
	}
	return t.removeVersions(ctx, table)
}

// removeOld removes the parts that are older than KeepFor. From a table with versions they go with a switch, so that a reader that has
// resolved the link keeps what it has listed.
func (t *Tables) removeOld(ctx context.Context, table string) error {
	linked, err := t.IsLink(table)
	if err != nil {
		return err
	}
	if linked {
		// Most calls find nothing, and need no lock.
		if old, err := t.oldParts(ctx, table); err != nil || len(old) == 0 {
			return err
		}
		unlock, err := t.lock(ctx, table, true)
		if err != nil {
			return err
		}
		defer unlock.Close()
	}
	old, err := t.oldParts(ctx, table)
	if err != nil || len(old) == 0 {
		return err
	}
	if !linked {
		return t.removeParts(ctx, table, old)
	}
	c := change{remove: make(map[string]bool)}
	for _, p := range old {
		c.remove[p.Path()] = true
		if p.Merged() {
			c.remove[p.contentsPath()] = true
		}
	}
	return t.switchVersion(table, c)
}

// oldParts lists the parts that are older than KeepFor.
func (t *Tables) oldParts(ctx context.Context, table string) (old []Part, err error) {
	dir := t.Path(table)
	parts, err := t.parts(dir)
	if err != nil {
		return nil, err
	}
	before := t.Now().Add(-t.KeepFor)
	for _, p := range parts {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		isOld, err := t.isOld(dir, p, before)
		if err != nil {
			return nil, err
		}
		if isOld {
			old = append(old, p)
		}
	}
	return old, nil
}

// removeParts removes parts of a table without versions, which may have been copied from one with them.
func (t *Tables) removeParts(ctx context.Context, table string, old []Part) error {
	dir := t.Path(table)
	folders := map[string]bool{"": true}
	for _, p := range old {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := t.FS.Remove(filepath.Join(dir, p.Path())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if p.Merged() { // second: alone it names no rows
			if err := t.FS.Remove(filepath.Join(dir, p.contentsPath())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		folders[p.Folder] = true
	}
	for folder := range folders {
		if folder != "" {
			_ = t.FS.Remove(filepath.Join(dir, folder)) // fails unless it is empty
		}
	}
	return t.FS.SyncDir(dir)
}

func (t *Tables) isOld(dir string, p Part, before time.Time) (bool, error) {
	if day, err := time.Parse(time.DateOnly, strings.TrimPrefix(p.Folder, DayPrefix)); err == nil {
		return !day.AddDate(0, 0, 1).After(before), nil
	}
	info, err := t.FS.Stat(filepath.Join(dir, p.Path()))
	if errors.Is(err, fs.ErrNotExist) { // a reader has removed it
		return false, nil
	}
	return err == nil && !info.ModTime().After(before), err
}

// candidate is a part that may be merged.
type candidate struct {
	Part
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
func (t *Tables) mergeSome(ctx context.Context, table string) (bool, error) {
	dir, err := t.Newest(table)
	if err != nil {
		return false, err
	}
	parts, d, err := t.Described(dir, table)
	if err != nil {
		return false, err
	}
	groups := make(map[mergeGroup][]candidate)
	for _, p := range parts {
		info, err := t.FS.Stat(filepath.Join(dir, p.Path()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if CheckID("file", p.First) != nil || !info.Mode().IsRegular() || info.Size() > t.MergeTo/2 {
			continue
		}
		g := mergeGroup{folder: p.Folder, extension: p.Extension, tier: bits.Len64(uint64(info.Size())) / 3}
		if t.KeepFor > 0 && p.Folder == "" {
			g.age = info.ModTime().UnixMicro() / max(t.KeepFor.Microseconds()/8, 1)
		}
		groups[g] = append(groups[g], candidate{p, info.Size(), info.ModTime()})
	}
	c := change{add: make(map[string]string), remove: make(map[string]bool)}
	defer func() {
		for _, temp := range c.add {
			_ = t.FS.Remove(temp) // if it stays, the sweep removes it
		}
	}()
	left := t.MergeTo
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b mergeGroup) int { return strings.Compare(a.folder, b.folder) }) {
		sources := groups[g]
		if len(sources) < MergeFrom {
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
		if _, err := t.FS.Stat(filepath.Join(t.Path(table), path)); err != nil {
			return false, err
		}
	}
	return true, t.switchVersion(table, c)
}

// merge writes one part with the rows of several, and notes it and them in c.
func (t *Tables) merge(ctx context.Context, dir string, d Definition, sources []candidate, c *change) error {
	modified := make(map[string]time.Time)
	var parts []Part
	for _, s := range sources {
		parts = append(parts, s.Part)
		modified[s.Name] = s.modified
	}
	m, err := t.Format.Merge(ctx, &t.Store, d, dir, parts)
	if err != nil || m.Temp == "" {
		return err
	}
	merged := Part{Folder: sources[0].Folder, First: m.Files[0].ID, Last: m.Files[0].ID, Files: len(m.Files), Extension: sources[0].Extension}
	for _, f := range m.Files {
		merged.First, merged.Last = min(merged.First, f.ID), max(merged.Last, f.ID)
	}
	merged.Name = fmt.Sprintf("%s~%s~%d%s", merged.First, merged.Last, merged.Files, merged.Extension)
	c.add[merged.Path()] = m.Temp
	var newest time.Time
	for _, p := range m.Taken {
		if at := modified[p.Name]; at.After(newest) {
			newest = at
		}
		c.remove[p.Path()] = true
		if p.Merged() {
			c.remove[p.contentsPath()] = true
		}
	}
	if err := t.FS.Chtimes(m.Temp, newest); err != nil { // it is as old as its newest rows
		return err
	}
	data, err := json.Marshal(contents{m.Files})
	if err != nil {
		return err
	}
	c.add[merged.contentsPath()], err = t.StageFile(ctx, MergeID, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
	return err
}
