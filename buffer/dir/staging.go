package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// StagingDir is a [driver.Staging] in a directory. It is safe for concurrent use, even by several processes.
type StagingDir struct{ files parts.Store }

var (
	_ driver.Staging     = (*StagingDir)(nil)
	_ driver.LocalDriver = (*StagingDir)(nil)
)

// Staging returns a staging in the directory path. The first Put creates the directory.
func Staging(path string) *StagingDir { return &StagingDir{parts.NewStore(path)} }

func (s *StagingDir) path(id string) string { return filepath.Join(s.files.Root, id+".slice") }

// Put implements [driver.Staging]. If the object is already stored it is kept and src is not read. An empty file cannot be
// an object with rows, so it is replaced.
func (s *StagingDir) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if err := parts.CheckID("object", obj.ID); err != nil {
		return err
	}
	err := s.put(ctx, obj, src)
	if err != nil {
		return fmt.Errorf("staging directory: put %s: %w", obj.ID, err)
	}
	return nil
}

func (s *StagingDir) put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.files.EnsureDir(s.files.Root); err != nil {
		return err
	}
	s.files.Sweep()
	info, err := s.files.Find(s.path(obj.ID))
	if err != nil {
		return err
	}
	if info != nil && (info.Size() > 0 || obj.Rows == 0) {
		return nil
	}
	return s.files.Write(ctx, s.path(obj.ID), obj.ID, func(w io.Writer) error {
		_, err := src.WriteTo(w)
		return err
	})
}

// Needs implements [driver.LocalDriver].
func (s *StagingDir) Needs(stored, _ int64) (folder string, bytes int64) { return s.files.Root, stored }

// Open implements [driver.Staging].
func (s *StagingDir) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	if err := cmp.Or(parts.CheckID("object", obj.ID), ctx.Err()); err != nil {
		return nil, err
	}
	rc, err := s.files.FS.Open(s.path(obj.ID))
	if err != nil {
		return nil, fmt.Errorf("staging directory: open %s: %w", obj.ID, err)
	}
	return rc, nil
}

// Delete implements [driver.Staging].
func (s *StagingDir) Delete(ctx context.Context, objs ...driver.Object) error {
	for _, obj := range objs {
		if err := cmp.Or(parts.CheckID("object", obj.ID), ctx.Err()); err != nil {
			return err
		}
		if err := s.files.FS.Remove(s.path(obj.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("staging directory: delete %s: %w", obj.ID, err)
		}
	}
	// Without the sync a power cut could bring back files that no caller deletes again. It runs even if all files
	// were missing, because an earlier call may have removed them and failed here.
	if len(objs) > 0 {
		if err := s.files.FS.SyncDir(s.files.Root); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("staging directory: delete: %w", err)
		}
	}
	return nil
}
