package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/localdisk"
)

// Save stores the files of a folder and a manifest of them. m describes the folder. ref is for the owner's record.
//
// before is the checkpoint that the record names now, as Save or Load returned it, and nil if there is none. Files that it has are
// not stored again. It stays whole. When the record names the new one, call Tidy, or leave that to the next Save. A before that
// the record does not name is a mistake by which Save may delete the checkpoint that it does name.
//
// A staging that fails now and then does not end Save. Each object is stored again, for some seconds.
//
// Tables that are stored are given to Options.Check first, unless m.Unchecked is set. Its error ends Save.
//
// The caller owns the instance with the epoch of m. A caller that has lost it without knowing stores objects that no record names, and deletes
// nothing that its adopter needs. It gets [changelog.ErrFenced] when the adopter has saved, tidied or cleared anything.
//
// Save keeps a copy of the note next to the folder, DIR.objects. Pass the same dir each time.
func (s *Store) Save(ctx context.Context, dir string, m Manifest, before *Manifest) (saved Manifest, ref string, err error) {
	dir = filepath.Clean(dir)
	if err := s.save(ctx, dir, &m, before); err != nil {
		return Manifest{}, "", fmt.Errorf("save checkpoint of instance %s: %w", m.Instance, err)
	}
	return m, m.ref, nil
}

func (s *Store) save(ctx context.Context, dir string, m *Manifest, before *Manifest) error {
	if before == nil {
		before = &Manifest{Instance: m.Instance}
	} else if before.ref == "" || before.Instance != m.Instance {
		return fmt.Errorf("the checkpoint before, %q of instance %q, does not belong to it", before.ref, before.Instance)
	}
	begin, disk := time.Now(), localdisk.Of(s.opts)
	files, err := list(disk, dir, "")
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	stored := make(map[string]File, len(before.Files))
	for _, f := range before.Files {
		stored[f.Name] = f
	}
	var inherited atomic.Bool
	if err := s.each(ctx, files, func(ctx context.Context, f *File) error {
		isTable := path.Ext(f.Name) == table
		if old := stored[f.Name]; isTable && old.Size == f.Size && old.modified.Equal(f.modified) {
			f.Hash = old.Hash
			inherited.Store(true)
			return nil
		}
		if err := f.hash(ctx, disk, dir); err != nil || !isTable || m.Unchecked || s.opts.Check == nil {
			return err
		}
		return s.opts.Check(disk, disk.PathJoin(dir, filepath.FromSlash(f.Name)))
	}); err != nil {
		return err
	}
	m.Files, m.Unchecked = files, m.Unchecked || before.Unchecked && inherited.Load()
	added, size := m.name(before.ref, stored)
	manifest, err := m.encode()
	if err != nil {
		return err
	}
	if err := s.note(ctx, dir, m, before); err != nil {
		return err
	}
	if err := s.put(ctx, m.ref, memory(manifest)); err != nil {
		return err
	}
	t := s.transfer("save", m, size)
	if err := s.each(ctx, added, func(ctx context.Context, f *File) error {
		return s.put(ctx, f.Object, content{disk, disk.PathJoin(dir, filepath.FromSlash(f.Name)), f, t.add})
	}); err != nil {
		return err
	}
	t.log.Info("checkpoint saved", "files", len(m.Files), "bytes", m.size(), "stored_files", len(added), "stored_bytes", size,
		"took", time.Since(begin))
	return nil
}

// attemptsToPut bounds how often an object is stored, with pauses from 0.1 s on that double: 13 s together. A Save that fails begins again
// with all objects of another snapshot, so one that does not get through must not be the end of all. While the staging is away for longer
// the folder that is saved must not keep the room of tables that the local level has given back.
const attemptsToPut = 8

// put stores an object. It tries again unless that cannot help, or the first attempt began a CallTimeout ago.
func (s *Store) put(ctx context.Context, name string, c driver.Content) (err error) {
	began := time.Now()
	for attempt := range attemptsToPut {
		if attempt > 0 {
			s.opts.Logger.Warn("checkpoint write repeated", "object", name, "cause", err, "next", "check staging if it happens again")
			if ctxio.Sleep(ctx, 50*time.Millisecond<<attempt) != nil {
				return err
			}
		}
		if err = s.putOnce(ctx, name, c); err == nil || ctx.Err() != nil || driver.IsPermanent(err) || time.Since(began) >= s.opts.CallTimeout {
			return err
		}
		if _, changed := errors.AsType[*differError](err); changed { // the disk gives other bytes than before
			return err
		}
	}
	return err
}

func (s *Store) putOnce(ctx context.Context, name string, c driver.Content) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CallTimeout)
	defer cancel()
	return s.staging.Put(ctx, object(name), c)
}

// table is the extension of files that a store never changes. The process that has saved one does not read it again.
const table = ".sst"

// list returns the files below a folder.
func list(disk vfs.FS, dir, below string) (files []File, err error) {
	names, err := disk.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		path := disk.PathJoin(dir, name)
		info, err := disk.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, File{Name: below + name, Size: info.Size(), modified: info.ModTime()})
			continue
		}
		inner, err := list(disk, path, below+name+"/")
		if err != nil {
			return nil, err
		}
		files = append(files, inner...)
	}
	return files, nil
}

// hash reads a file of a folder.
func (f *File) hash(ctx context.Context, disk vfs.FS, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := disk.Open(disk.PathJoin(dir, filepath.FromSlash(f.Name)), vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	if f.Size, err = io.Copy(sum, r); err != nil {
		return err
	}
	f.Hash = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// name gives each file its object, and returns the files that are not stored yet and their bytes. stored are the files of the checkpoint
// before by name.
func (m *Manifest) name(before string, stored map[string]File) (added []File, size int64) {
	for i := range m.Files {
		f := &m.Files[i]
		old := stored[f.Name]
		switch {
		case f.Size == 0:
		case old.Size == f.Size && old.Hash == f.Hash:
			f.Object = old.Object
		default:
			f.Object = objectName(prefix(m.Instance, m.Epoch), m.Instance, before, f.Name, f.Hash)
			added = append(added, *f)
			size += f.Size
		}
	}
	return added, size
}

// without returns the names that are not among others.
func without(names, others []string) []string {
	known := make(map[string]bool)
	for _, name := range others {
		known[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return known[name] })
}

// memory is a content.
type memory []byte

// Open implements [driver.Content].
func (m memory) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m)), nil }

// WriteTo implements [driver.Content].
func (m memory) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(m)
	return int64(n), err
}
