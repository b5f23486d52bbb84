package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// note is the record of an instance in the store of owners that names the manifests of all checkpoints whose objects may be in staging. A ref
// is in it before the first object of its checkpoint is stored, and until the last one is deleted.
type note struct {
	Format int `json:"format"`
	// Epoch is the highest of the owners that have written the note. One with a lower epoch is refused.
	Epoch uint64 `json:"epoch"`
	// Before is the checkpoint that the owner's record named when the note was written, empty if that was none or is damaged.
	Before string `json:"before,omitempty"`
	// Refs are the names of manifests, the oldest first.
	Refs []string `json:"refs"`
}

// noteFormat is the format that this release writes, and the newest that it reads.
const noteFormat = 1

// maxRefs bounds the note to 64 KiB. An attempt to save that fails adds one, every 30 s while the staging fails.
const maxRefs = 1024

func noteKey(instance string) string { return "c." + instance }

// parseNote reads the note of an instance, an empty one if there is none. It refuses the note of an owner later than epoch.
func parseNote(got changelog.Versioned, instance string, epoch uint64) (n note, err error) {
	if got.Version == 0 {
		return note{}, nil
	}
	if err := json.Unmarshal(got.Value, &n); err != nil {
		return note{}, err
	}
	switch {
	case n.Format != noteFormat:
		return note{}, fmt.Errorf("its format is %d, this release reads %d: upgrade this node", n.Format, noteFormat)
	case n.Epoch > epoch:
		return note{}, fmt.Errorf("%w: it was written with epoch %d, and this owner has %d", changelog.ErrFenced, n.Epoch, epoch)
	}
	for _, ref := range n.Refs {
		if _, err := epochOf(instance, ref); err != nil {
			return note{}, err
		}
	}
	return n, nil
}

// epochOf returns the epoch of the owner that saved a checkpoint. It refuses the name of an object of another instance.
func epochOf(instance, ref string) (uint64, error) {
	rest, ok := strings.CutPrefix(ref, instancePrefix(instance))
	text, _, _ := strings.Cut(rest, "-")
	epoch, err := strconv.ParseUint(text, 10, 63)
	if !ok || err != nil || prefixOf(ref) != prefix(instance, epoch) {
		return 0, fmt.Errorf("%q is no checkpoint of instance %s", ref, instance)
	}
	return epoch, nil
}

// attemptsToNote bounds how often a note is read and written again when another write was first, the read was old, or a response was lost. All
// files of a snapshot are read again for each Save that fails.
const attemptsToNote = 5

// rewrite replaces the note of an instance by what change makes of it. Nothing is written if change returns false.
func (s *Store) rewrite(ctx context.Context, instance string, epoch uint64, change func(n *note) bool) (err error) {
	for attempt := range attemptsToNote {
		if attempt > 0 {
			if err := ctxio.Sleep(ctx, 50*time.Millisecond<<attempt); err != nil {
				return err
			}
		}
		var final bool
		if final, err = s.rewriteOnce(ctx, instance, epoch, change); err == nil || final || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("note what staging has: %w", err)
	}
	return nil
}

// rewriteOnce makes one attempt. final says that the error stays.
func (s *Store) rewriteOnce(ctx context.Context, instance string, epoch uint64, change func(n *note) bool) (final bool, err error) {
	got, err := s.owners.Get(ctx, noteKey(instance))
	if err != nil {
		return false, err
	}
	n, err := parseNote(got, instance, epoch)
	if err != nil || !change(&n) {
		return true, err
	}
	n.Format, n.Epoch = noteFormat, epoch
	if n.Refs == nil {
		n.Refs = []string{}
	}
	value, err := json.Marshal(n)
	if err != nil {
		return true, err
	}
	_, err = s.owners.CompareAndSet(ctx, noteKey(instance), got.Version, value)
	return false, err
}

// note notes that the objects of m are about to be stored, after it has tidied. A tidying that fails is repeated by the next Save.
func (s *Store) note(ctx context.Context, dir string, m, before *Manifest) error {
	var written note
	if err := s.rewrite(ctx, m.Instance, m.Epoch, func(n *note) bool {
		if n.Format == 0 {
			*n = s.readCopy(dir, m.Instance)
		}
		if before.ref != "" {
			if err := s.tidy(ctx, n, m.Instance, m.Epoch, before, nil); err != nil {
				s.opts.Logger.Warn("old checkpoints not removed", "instance", m.Instance, "cause", err, "next", "check that the node may delete objects in staging")
			}
		}
		n.Before = before.ref
		for _, ref := range []string{before.ref, m.ref} {
			if ref != "" && !slices.Contains(n.Refs, ref) {
				n.Refs = append(n.Refs, ref)
			}
		}
		if more := len(n.Refs) - maxRefs; more > 0 {
			s.opts.Logger.Warn("objects of failed checkpoints left", "instance", m.Instance, "prefix", prefixOf(n.Refs[0]), "next", "when the instance is retired, delete objects with this prefix")
			n.Refs = slices.Delete(n.Refs, 0, more)
		}
		written = *n
		return true
	}); err != nil {
		return err
	}
	return s.writeCopy(dir, m.Instance, written)
}

// noteCopy is the note next to the folder of a checkpoint. It counts when the store of owners has lost its note.
type noteCopy struct {
	Instance string `json:"instance"`
	Note     note   `json:"note"`
}

// readCopy returns the copy of the note of an instance, an empty note if there is none.
func (s *Store) readCopy(dir, instance string) note {
	var found noteCopy
	text, err := pebblestore.ReadNote(localdisk.Of(s.opts), dir+".objects", 1<<20)
	if err != nil || json.Unmarshal([]byte(text), &found) != nil || found.Instance != instance {
		return note{}
	}
	if slices.ContainsFunc(found.Note.Refs, func(ref string) bool { _, err := epochOf(instance, ref); return err != nil }) {
		return note{}
	}
	return found.Note
}

func (s *Store) writeCopy(dir, instance string, n note) error {
	data, err := json.Marshal(noteCopy{instance, n})
	if err != nil {
		return err
	}
	disk, path := localdisk.Of(s.opts), dir+".objects"
	return pebblestore.WriteNote(disk, disk.PathDir(path), disk.PathBase(path), string(data))
}
