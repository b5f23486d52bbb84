package checkpoint

import (
	"context"
	"fmt"
)

// Remove deletes the objects of a checkpoint that none of the others has. Its manifest goes last, so that a Remove that fails can be
// repeated, also by another process that Loads it. Only the owner of the instance may call it, for a checkpoint that the record does
// not name any more.
func (s *Store) Remove(ctx context.Context, m Manifest, keep ...*Manifest) error {
	var kept []string
	for _, k := range keep {
		kept = append(kept, k.objects()...)
	}
	gone := without(m.objects(), kept)
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
