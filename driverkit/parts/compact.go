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

	"github.com/forebay/forebay/driver"
)

// MergeFrom is how many parts of about one size are merged. A row is rewritten at most log8(MergeTo / size of a part) times.
const MergeFrom = 8

// Compact implements [driver.Compactor]. It merges small parts and removes old ones, as the options say. It is safe alongside
// imports and readers, and after a crash at any point. Unfinished work is not visible and is removed later. While
// another process compacts the table it does nothing.
func (t *Tables) Compact(ctx context.Context, table driver.Table) error {
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
	if due, all := t.due(table); due {
		if err := t.removeAndMerge(ctx, table, all); err != nil {
			t.lookAgain(table)
			return err
		}
	}
	if linked, err = t.IsLink(table); err != nil || !linked {
		return err
	}
	return t.removeVersions(ctx, table)
}

// share is the part of all parts that must have been added or be to go before a switch, which costs as much as the table has parts. So an import
// pays for four times its own parts at most, in a table of any size.
const share = 4

// due reports whether Compact looks at the parts of a table. It does so the first time, each hour, and once this process has added a share of them.
// With all it does whatever there is to do, the first time and each hour, else only what removes a share of the parts.
func (t *Tables) due(table string) (due, all bool) {
	t.knownMu.Lock()
	defer t.knownMu.Unlock()
	k, now := t.knownOf(table), t.Now()
	all = k.looked.IsZero() || now.Sub(k.looked) >= compactAfter || now.Before(k.looked)
	due = all || k.more*share >= k.parts
	if all {
		k.looked = now
	}
	if due {
		k.more = 0
	}
	return due, all
}

// lookAgain lets the next Compact look at all parts.
func (t *Tables) lookAgain(table string) {
	t.knownMu.Lock()
	defer t.knownMu.Unlock()
	t.knownOf(table).looked = time.Time{}
}

// counted remembers the number of parts of a table.
func (t *Tables) counted(table string, parts int) {
	t.knownMu.Lock()
	defer t.knownMu.Unlock()
	t.knownOf(table).parts = parts
}

// removeAndMerge removes old parts and merges small ones. Unless all is set, it does so only if they are a sufficient share of all parts.
func (t *Tables) removeAndMerge(ctx context.Context, table string, all bool) error {
	if t.KeepFor > 0 {
		if err := t.removeOld(ctx, table, all); err != nil {
			return err
		}
	}
	for again := t.MergeTo > 0; again; {
		var err error
		if again, err = t.mergeSome(ctx, table, all); err != nil {
			return err
		}
	}
	return nil
}

// removeOld removes the parts that are older than KeepFor. In a table with versions a switch removes them, so that a reader that has
// resolved the link keeps the parts that it has listed.
func (t *Tables) removeOld(ctx context.Context, table string, all bool) error {
	linked, err := t.IsLink(table)
	if err != nil {
		return err
	}
	if linked {
		// Most calls find nothing, and need no lock.
		old, parts, err := t.oldParts(ctx, table)
		t.counted(table, parts)
		if err != nil || len(old) == 0 || !all && len(old)*share < parts {
			return err
		}
		unlock, err := t.lock(ctx, table, true)
		if err != nil {
			return err
		}
		defer unlock.Close()
	}
	old, parts, err := t.oldParts(ctx, table)
	t.counted(table, parts-len(old))
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

// oldParts lists the parts that are older than KeepFor, and counts all.
func (t *Tables) oldParts(ctx context.Context, table string) (old []Part, all int, err error) {
	dir := t.Path(table)
	parts, err := t.parts(dir)
	if err != nil {
		return nil, 0, err
	}
	before := t.Now().Add(-t.KeepFor)
	for _, p := range parts {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		isOld, err := t.isOld(dir, p, before)
		if err != nil {
			return nil, 0, err
		}
		if isOld {
			old = append(old, p)
		}
	}
	return old, len(parts), nil
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
		if p.Merged() { // second, because alone it names no rows
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
	if day, err := time.Parse(time.DateOnly, strings.TrimPrefix(p.day(), DayPrefix)); err == nil {
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
	day, extension string
	tier           int   // of the size
	age            int64 // so that old rows are not kept by new ones
}

// mergeSome makes one switch that merges parts, of at most MergeTo bytes in all. It reports whether there was anything to
// merge. all is as in [Tables.removeAndMerge].
func (t *Tables) mergeSome(ctx context.Context, table string, all bool) (bool, error) {
	dir, err := t.Newest(table)
	if err != nil {
		return false, err
	}
	parts, d, err := t.Described(dir, table)
	if err != nil {
		return false, err
	}
	t.counted(table, len(parts))
	groups, err := t.mergeGroups(dir, parts)
	if err != nil {
		return false, err
	}
	sources := 0
	for _, g := range groups {
		sources += len(g)
	}
	if !all && sources*share < len(parts) {
		return false, nil
	}
	c := change{add: make(map[string]string), remove: make(map[string]bool)}
	defer func() {
		for _, temp := range c.add {
			_ = t.FS.Remove(temp) // if it stays, the sweep removes it
		}
	}()
	left := t.MergeTo
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b mergeGroup) int { return strings.Compare(a.day, b.day) }) {
		sources := groups[g]
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
		// A user has deleted a part that was merged. Its rows must not come back.
		if _, err := t.FS.Stat(filepath.Join(t.Path(table), path)); err != nil {
			return false, err
		}
	}
	return true, t.switchVersion(table, c)
}

// mergeGroups returns the parts that can be merged, at least [MergeFrom] in each group.
func (t *Tables) mergeGroups(dir string, parts []Part) (map[mergeGroup][]candidate, error) {
	groups := make(map[mergeGroup][]candidate)
	for _, p := range parts {
		info, err := t.FS.Stat(filepath.Join(dir, p.Path()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if CheckID("file", p.First) != nil || !info.Mode().IsRegular() || info.Size() > t.MergeTo/2 {
			continue
		}
		g := mergeGroup{day: p.day(), extension: p.Extension, tier: bits.Len64(uint64(info.Size())) / 3}
		if t.KeepFor > 0 && p.Folder == "" {
			g.age = info.ModTime().UnixMicro() / max(t.KeepFor.Microseconds()/8, 1)
		}
		groups[g] = append(groups[g], candidate{p, info.Size(), info.ModTime()})
	}
	for g, sources := range groups {
		if len(sources) < MergeFrom {
			delete(groups, g)
		}
		slices.SortFunc(sources, func(a, b candidate) int { return strings.Compare(a.Name, b.Name) })
	}
	return groups, nil
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
	merged := Part{Folder: folderOf(m.Taken), First: m.Files[0].ID, Last: m.Files[0].ID, Files: len(m.Files), Extension: sources[0].Extension}
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

// folderOf returns the folder of a part that is merged from others. It is the folder of one of them, so that a reader that has listed it before the
// switch, and other folders after it, finds that a part is gone.
func folderOf(taken []Part) string {
	folder := taken[0].Folder
	for _, p := range taken {
		if len(p.Folder) < len(folder) { // dt=DAY rather than the folder of one file
			folder = p.Folder
		}
	}
	return folder
}
