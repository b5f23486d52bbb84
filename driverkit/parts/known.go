package parts

import (
	"errors"
	"hash/maphash"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// known is what an import and Compact remember of a linked table, so that neither lists all of its parts. It belongs to one process.
type known struct {
	// target is the version that was listed, the text of the link of the table.
	target string
	// files are hashes of the files with an unmerged part in that version, sorted. added has the files that this process added.
	files []uint64
	added map[uint64]bool
	// merged are the merged parts of the version. Only a switch makes merged parts.
	merged []Part

	// parts is the number of parts at the last look of Compact, looked its time, and more the number of parts that this process added since.
	parts, more int
	looked      time.Time
}

var fileSeed = maphash.MakeSeed()

func hashOf(id string) uint64 { return maphash.String(fileSeed, id) }

// compactAfter is the time after which Compact looks at all parts of a table, however few were added.
const compactAfter = time.Hour

// knownOf returns the known state of a table. Called with knownMu held.
func (t *Tables) knownOf(table string) *known {
	if t.known == nil {
		t.known = make(map[string]*known)
	}
	k := t.known[table]
	if k == nil {
		k = new(known)
		t.known[table] = k
	}
	return k
}

// maxAdded bounds the files in known.added. More of them make the next import list the version again.
const maxAdded = 10_000

// note remembers that this process added the parts of a file.
func (t *Tables) note(table, id string, parts int) {
	t.knownMu.Lock()
	defer t.knownMu.Unlock()
	k := t.knownOf(table)
	k.more += parts
	if k.target == "" { // the version was not listed, or the table has none
		return
	}
	if k.added == nil {
		k.added = make(map[uint64]bool)
	}
	if k.added[hashOf(id)] = true; len(k.added) >= maxAdded {
		k.target, k.files, k.merged, k.added = "", nil, nil, nil
	}
}

// forget drops the known state of a deleted table.
func (t *Tables) forget(table string) {
	t.knownMu.Lock()
	defer t.knownMu.Unlock()
	delete(t.known, table)
}

// recall returns the merged parts of a version that may have rows of a file, and whether a part of the file alone may be in it. Parts
// that other processes have added since the version was listed are not considered.
func (t *Tables) recall(table, target, id string) (merged []Part, alone bool, err error) {
	t.knownMu.Lock()
	fresh := t.knownOf(table).target == target
	t.knownMu.Unlock()
	if !fresh {
		if err := t.learn(table, target); err != nil {
			return nil, false, err
		}
	}
	t.knownMu.Lock()
	defer t.knownMu.Unlock()
	k := t.knownOf(table)
	for _, p := range k.merged {
		if p.First <= id && id <= p.Last {
			merged = append(merged, p)
		}
	}
	_, alone = slices.BinarySearch(k.files, hashOf(id))
	return merged, alone || k.added[hashOf(id)] || k.target != target, nil
}

// learn lists the parts of a version.
func (t *Tables) learn(table, target string) error {
	parts, err := t.parts(filepath.Join(t.Root, target))
	if err != nil {
		return err
	}
	var files []uint64
	var merged []Part
	for _, p := range parts {
		if p.Merged() {
			merged = append(merged, p)
		} else {
			files = append(files, hashOf(p.First))
		}
	}
	slices.Sort(files)
	t.knownMu.Lock()
	defer t.knownMu.Unlock()
	k := t.knownOf(table)
	k.target, k.files, k.merged = target, slices.Clip(slices.Compact(files)), merged
	k.added = nil // files that were added since the listing are found by the paths of their parts
	return nil
}

// sectionsFor is [Tables.sections] for an import. For a file that was not imported its cost does not depend on the size of the table. staged
// are the paths of the parts that the import is about to add, nil if they are not known yet. An import that holds the lock and knows its
// parts finds every earlier import of the file. It knows the parts of the version, and looks for parts that were added later by their paths.
func (t *Tables) sectionsFor(table, id string, staged map[string]string) ([]Section, error) {
	if s, err := t.wholePart(table, id); s != nil || err != nil {
		return s, err
	}
	target, err := t.linkOf(table)
	if target == "" || err != nil {
		return nil, err
	}
	may, err := t.mayHave(table, target, id, staged)
	if errors.Is(err, fs.ErrNotExist) { // a switch, or a reader, has removed a part
		may, err = true, nil
	}
	if !may || err != nil {
		return nil, err
	}
	return t.sections(table, id)
}

// mayHave reports whether a version may have rows of a file. It is right about a version that has none.
func (t *Tables) mayHave(table, target, id string, staged map[string]string) (bool, error) {
	merged, alone, err := t.recall(table, target, id)
	if alone || err != nil {
		return alone, err
	}
	dir := filepath.Join(t.Root, target)
	found, err := t.sectionsIn(dir, merged, id)
	if len(found) > 0 || err != nil {
		return true, err
	}
	parts, err := t.partsOfImport(dir, id)
	if len(parts) > 0 || err != nil {
		return true, err
	}
	for _, path := range slices.Sorted(maps.Keys(staged)) {
		if _, err := t.FS.Stat(filepath.Join(dir, path)); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	return false, nil
}
