package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/forebay/forebay/cluster/changelog"
)

// Tidy deletes all checkpoints of an instance that its record can no longer name, including checkpoints of earlier owners. Only the owner with
// this epoch may call it. named is the checkpoint that the record names. With nil it names none, or one that is damaged. Nothing is deleted
// then. known are others whose objects the caller knows. The manifests of the rest are read.
//
// An object stays if an earlier owner that stood still in the middle of a call stores it after that.
func (s *Store) Tidy(ctx context.Context, instance string, epoch uint64, named *Manifest, known ...*Manifest) error {
	if named == nil {
		return nil
	}
	var failed error
	err := s.rewrite(ctx, instance, epoch, func(n *note) bool {
		before := len(n.Refs)
		failed = s.tidy(ctx, n, instance, epoch, named, known)
		return len(n.Refs) < before
	})
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("remove old checkpoints of instance %s: %w", instance, err)
	}
	return nil
}

// tidy deletes objects that the note lists and the owner's record cannot name, and removes them from the note.
//
// Objects that this owner noted while the record named the same checkpoint as now stay. They may include names of the next Save, and a deletion
// that arrived late would hit them. Another owner uses different names, and can no longer write the record.
func (s *Store) tidy(ctx context.Context, n *note, instance string, epoch uint64, named *Manifest, known []*Manifest) error {
	var failed error
	n.Refs = slices.DeleteFunc(n.Refs, func(ref string) bool {
		if saved, _ := epochOf(instance, ref); failed != nil || ref == named.ref || saved == epoch && n.Before == named.ref {
			return false
		}
		gone, err := s.drop(ctx, instance, ref, named, known)
		failed = err
		return gone
	})
	n.Before = named.ref
	return failed
}

// drop deletes the objects of a checkpoint that keep does not have. gone says that none is left.
func (s *Store) drop(ctx context.Context, instance, ref string, keep *Manifest, known []*Manifest) (gone bool, err error) {
	var m Manifest
	if at := slices.IndexFunc(known, func(m *Manifest) bool { return m != nil && m.ref == ref }); at >= 0 {
		m = *known[at]
	} else if m, err = s.load(ctx, instance, ref, 1); err != nil {
		damage, ok := errors.AsType[*DamageError](err)
		switch {
		case errors.Is(err, errNewer): // an owner of that release deletes it
			return false, nil
		case !ok:
			return false, err
		}
		if _, changed := errors.AsType[*differError](damage); changed {
			s.opts.Logger.Warn("manifest of an old checkpoint damaged", "instance", instance, "object", ref, "next", "find out what changes objects in staging")
		}
		// Without a manifest nothing else was stored, or everything else is deleted.
		return true, s.remove(ctx, []string{ref})
	}
	err = s.removeAll(ctx, &m, keep)
	return err == nil, err
}

// Clear deletes all checkpoints of an instance that no longer has rows, including the checkpoint that its record names. Its last owner had this
// epoch. It may be repeated, and called by several nodes at once.
func (s *Store) Clear(ctx context.Context, instance string, epoch uint64, ref string) error {
	var failed error
	drop := func(ref string, known ...*Manifest) bool {
		gone, err := s.drop(ctx, instance, ref, &Manifest{}, known)
		failed = errors.Join(failed, err)
		return gone
	}
	if ref != "" {
		m, err := s.Load(ctx, instance, ref) // a staging may list it late
		if damage := (*DamageError)(nil); err != nil && !errors.As(err, &damage) {
			return err
		}
		if err == nil {
			drop(ref, &m)
		}
	}
	err := s.rewrite(ctx, instance, min(epoch, math.MaxInt64), func(n *note) bool {
		n.Before = ""
		n.Refs = slices.DeleteFunc(n.Refs, func(ref string) bool { return drop(ref) })
		return true // so that the note was the newest
	})
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("remove the checkpoints of instance %s: %w", instance, err)
	}
	return nil
}

// Forget deletes the note of a retired instance. A different note, or none, is no error.
func (s *Store) Forget(ctx context.Context, instance string) error {
	got, err := s.owners.Get(ctx, noteKey(instance))
	if err == nil && got.Version != 0 {
		err = s.owners.Delete(ctx, got.Key, got.Version)
	}
	if err != nil && !errors.Is(err, changelog.ErrLost) {
		return fmt.Errorf("forget the checkpoints of instance %s: %w", instance, err)
	}
	return nil
}

// removeAll deletes the objects of a checkpoint that keep does not have. Its manifest goes last, so that it can be read again if this
// fails.
func (s *Store) removeAll(ctx context.Context, m, keep *Manifest) error {
	gone := without(m.objects(), keep.objects())
	if len(gone) == 0 {
		return nil
	}
	last := len(gone) - 1 // a staging may delete the objects of one call in any order
	err := s.remove(ctx, gone[:last])
	if err == nil {
		err = s.remove(ctx, gone[last:])
	}
	if err != nil {
		return fmt.Errorf("remove checkpoint %s of instance %s: %w", m.ref, m.Instance, err)
	}
	return nil
}
