package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// DamageError says that a checkpoint is not whole. An object is missing, or does not have the bytes that were saved. It was read
// several times. Other errors of Load and Fetch may pass.
type DamageError struct {
	// Object is its name in staging.
	Object string
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("the checkpoint is damaged: object %s: %v", e.Object, e.Err)
}
func (e *DamageError) Unwrap() error { return e.Err }

// Load returns the manifest that an instance's record names. The error is a [*DamageError] if the object is missing or differs from
// the saved one. It is a different error if a newer release saved the checkpoint, or if it belongs to another instance.
func (s *Store) Load(ctx context.Context, instance, ref string) (Manifest, error) {
	return s.load(ctx, instance, ref, attempts)
}

func (s *Store) load(ctx context.Context, instance, ref string, attempts int) (m Manifest, err error) {
	if err = s.again(ctx, ref, attempts, func(ctx context.Context, r io.ReadCloser) error {
		data, err := io.ReadAll(io.LimitReader(r, maxManifest))
		if err == nil {
			m, err = decode(ref, data)
		}
		return err
	}); err == nil && m.Instance != instance {
		err = fmt.Errorf("it is of instance %s", m.Instance)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("load checkpoint %s of instance %s: %w", ref, instance, err)
	}
	return m, nil
}

// Fetch writes the files of a checkpoint to a new folder. The folder appears when everything is in it, has been verified, and is
// durable. With an error there is none. A [*DamageError] is final.
func (s *Store) Fetch(ctx context.Context, m Manifest, dir string) error {
	disk, t := localdisk.Of(s.opts), s.transfer("fetch", &m, m.size())
	if err := pebblestore.MakeFolder(disk, filepath.Clean(dir), func(partial string) error {
		folders, err := makeFolders(disk, partial, m.Files)
		if err != nil {
			return err
		}
		if err := s.each(ctx, m.Files, func(ctx context.Context, f *File) error {
			return s.fetch(ctx, f, disk, disk.PathJoin(partial, filepath.FromSlash(f.Name)), t)
		}); err != nil {
			return err
		}
		for _, folder := range folders {
			if err := pebblestore.SyncDir(disk, folder); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("fetch checkpoint %s of instance %s: %w", m.ref, m.Instance, err)
	}
	t.log.Info("checkpoint fetched", "files", len(m.Files), "bytes", t.total, "took", time.Since(t.begin))
	return nil
}

// makeFolders makes the folders of the files in dir, and returns them with it.
func makeFolders(disk vfs.FS, dir string, files []File) ([]string, error) {
	folders := []string{dir}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, f := range files {
		for parent := path.Dir(f.Name); parent != "."; parent = path.Dir(parent) {
			folder := disk.PathJoin(dir, filepath.FromSlash(parent))
			if slices.Contains(folders, folder) {
				break
			}
			if err := disk.MkdirAll(folder, 0o700); err != nil {
				return nil, err
			}
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// fetch writes one file. Each attempt begins with an empty one.
func (s *Store) fetch(ctx context.Context, f *File, disk vfs.FS, place string, t *transfer) error {
	write := func(ctx context.Context, r io.ReadCloser) error {
		w, err := disk.Create(place, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if _, err := io.Copy(ctxio.Writer(ctx, w), verify(r, f, t.add)); err != nil {
			return errors.Join(err, w.Close())
		}
		return errors.Join(w.Sync(), w.Close())
	}
	if f.Object == "" {
		return write(ctx, io.NopCloser(strings.NewReader("")))
	}
	return s.again(ctx, f.Object, attempts, write)
}

// attempts to read an object, with pauses of 1, 2 and 4 s between them. A staging may list an object late, or break off, and one
// object that does not come must not be the end of all.
const attempts = 4

// again opens an object and hands it to read, until read succeeds. What is missing or has other bytes becomes a [*DamageError].
func (s *Store) again(ctx context.Context, name string, attempts int, read func(context.Context, io.ReadCloser) error) (err error) {
	for attempt := range attempts {
		if attempt > 0 {
			s.opts.Logger.Warn("checkpoint read repeated", "object", name, "cause", err, "next", "check staging if it happens again")
			if err := ctxio.Sleep(ctx, time.Second<<(attempt-1)); err != nil {
				return err
			}
		}
		if err = s.once(ctx, name, read); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *Store) once(ctx context.Context, name string, read func(context.Context, io.ReadCloser) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	r, err := s.staging.Open(ctx, object(name))
	if errors.Is(err, fs.ErrNotExist) {
		return &DamageError{name, err}
	}
	if err != nil {
		return err
	}
	defer r.Close()
	err = read(ctx, r)
	if differ, ok := errors.AsType[*differError](err); ok {
		return &DamageError{name, differ}
	}
	return err
}
