package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/localdisk"
)

const (
	// MergeID begins the names of temporary files with merged rows. No file has this id.
	MergeID = "merge_"
	// TempDir holds files in progress. No table or object has this name.
	TempDir = ".tmp"
	// StaleAfter is the age at which a temporary file counts as left over. If that is wrong, its writer fails at the rename
	// and the buffer repeats the call. The guess costs work, never rows.
	StaleAfter = time.Hour
)

// Store writes whole files. After a crash a file exists completely or not at all.
type Store struct {
	// FS is the disk. Tests replace it, and Now, before the first call.
	FS FileSystem
	// Root is the folder of all files.
	Root string
	// Now is the clock.
	Now func() time.Time

	mu        sync.Mutex      // guards the fields below, and is not held during I/O
	durable   map[string]bool // directories whose own entry this process has synced
	lastSweep time.Time
	// temps counts the temporary files of an id that may exist. They are of running or failed calls of Write, or the first sweep has found them. A call of Write that succeeds looks for others only if there may be some.
	temps map[string]int
	known bool // the first sweep has looked for temporary files of earlier processes
}

// NewStore returns a store in the folder root. The first write creates the folder.
func NewStore(root string) Store {
	if root != "" { // else the first write reports it
		root = filepath.Clean(root)
	}
	return Store{FS: Disk{}, Root: root, Now: time.Now, durable: make(map[string]bool), temps: make(map[string]int)}
}

// EnsureDir creates a directory durably. An existing one is synced too, once, because the process that created it may have
// crashed before its sync.
func (s *Store) EnsureDir(dir string) error {
	if err := localdisk.Named(s.Root); err != nil {
		return driver.Permanent(err)
	}
	var missing []string
	for p := dir; ; p = filepath.Dir(p) {
		info, err := s.FS.Stat(p)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: p, Err: syscall.ENOTDIR}
		}
		if err == nil {
			break
		}
		if errors.Is(err, syscall.ENOTDIR) { // a retry does not change it
			return driver.Permanent(fmt.Errorf("%s is a file, not a folder, or lies below one: choose another folder: %w", p, err))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, p)
	}
	if len(missing) > 0 {
		if err := s.FS.MkdirAll(dir); err != nil {
			return err
		}
		for _, p := range missing {
			if err := s.FS.SyncDir(filepath.Dir(p)); err != nil {
				return err
			}
		}
	} else if !s.isDurable(dir) {
		// If the parent cannot be opened, no earlier process of this kind created a directory in it.
		if err := s.FS.SyncDir(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	s.mu.Lock()
	s.durable[dir] = true
	s.mu.Unlock()
	return nil
}

func (s *Store) isDurable(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable[dir]
}

// Find returns a regular file, durably present, or nil if there is none. Anything else with that name is an error, because
// this package did not create it.
func (s *Store) Find(path string) (fs.FileInfo, error) {
	info, err := s.FS.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, driver.Permanent(fmt.Errorf("%s is no regular file (%s): move it away", path, info.Mode()))
	}
	// The rename may be younger than the last sync of the directory, because its writer may have crashed between them.
	return info, s.FS.SyncDir(filepath.Dir(path))
}

// Write creates the file path durably with what fill writes. The directory of path must exist. Concurrent writers of one
// path must write equivalent files. One of them remains. id names the temporary files of the path.
func (s *Store) Write(ctx context.Context, path, id string, fill func(w io.Writer) error) error {
	s.mu.Lock()
	s.temps[id]++
	s.mu.Unlock()
	temp, err := s.StageFile(ctx, id, fill)
	if err != nil {
		return err
	}
	if err := s.publish(temp, path); err != nil {
		return err
	}
	s.mu.Lock()
	left := s.temps[id] > 1 || !s.known
	delete(s.temps, id)
	s.mu.Unlock()
	if left {
		s.removeTempOf(id)
	}
	return nil
}

// StageFile writes a temporary file durably. id begins its name.
func (s *Store) StageFile(ctx context.Context, id string, fill func(w io.Writer) error) (temp string, err error) {
	temp, f, err := s.CreateTemp(id)
	if err != nil {
		return "", err
	}
	if err := FillAndClose(ctx, f, true, fill); err != nil {
		_ = s.FS.Remove(temp) // if it stays, the repeated call or the sweep removes it
		return "", err
	}
	return temp, nil
}

// CreateTemp makes a temporary file. If it is neither published nor removed, the sweep removes it later.
func (s *Store) CreateTemp(id string) (temp string, f File, err error) {
	if err := s.EnsureDir(filepath.Join(s.Root, TempDir)); err != nil {
		return "", nil, err
	}
	temp = s.tempPath(id)
	f, err = s.FS.Create(temp)
	return temp, f, err
}

// tempPath returns the path of a new temporary file or folder.
func (s *Store) tempPath(id string) string {
	return filepath.Join(s.Root, TempDir, fmt.Sprintf("%s.%016x", id, rand.Uint64()))
}

// publish gives a temporary file its name, durably.
func (s *Store) publish(temp, path string) error {
	if err := s.FS.Rename(temp, path); err != nil {
		// Another writer of the path was faster, and has removed our file with all others of the id.
		if info, ferr := s.Find(path); info != nil && ferr == nil && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		_ = s.FS.Remove(temp)
		return otherDisk(path, s.Root, err)
	}
	return s.FS.SyncDir(filepath.Dir(path))
}

// otherDisk explains the error of a rename from root to path if they are on two disks.
func otherDisk(path, root string, err error) error {
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	return driver.Permanent(fmt.Errorf("%s is on another disk than %s, and a file cannot be renamed from one to the "+
		"other: move the folder back, or move or link the whole of %s: %w", filepath.Dir(path), root, root, err))
}

// FillAndClose writes a file and closes it. With durable, it syncs the file first.
func FillAndClose(ctx context.Context, f File, durable bool, fill func(w io.Writer) error) error {
	err := fill(ctxio.Writer(ctx, f))
	if err == nil && durable {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// removeTempOf removes the temporary files of an id.
func (s *Store) removeTempOf(id string) {
	s.removeTemp(func(e fs.DirEntry) bool { return idOfTemp(e) == id })
}

func idOfTemp(e fs.DirEntry) string {
	id, _, _ := strings.Cut(e.Name(), ".")
	return id
}

// Sweep removes abandoned temporary files, at most once in StaleAfter.
func (s *Store) Sweep() {
	now := s.Now()
	s.mu.Lock()
	first := s.lastSweep.IsZero()
	due := first || now.Sub(s.lastSweep) >= StaleAfter
	if due {
		s.lastSweep = now
	}
	s.mu.Unlock()
	if due {
		s.removeTemp(func(e fs.DirEntry) bool {
			info, err := e.Info()
			stale := err == nil && now.Sub(info.ModTime()) >= StaleAfter
			if first && !stale {
				s.mu.Lock()
				s.temps[idOfTemp(e)]++
				s.mu.Unlock()
			}
			return stale
		})
	}
	if first {
		s.mu.Lock()
		s.known = true
		s.mu.Unlock()
	}
}

// removeTemp removes the matching temporary files. It ignores errors because the files only take space, and the next sweep tries
// again.
func (s *Store) removeTemp(match func(e fs.DirEntry) bool) {
	entries, _ := s.FS.ReadDir(filepath.Join(s.Root, TempDir))
	for _, e := range entries {
		if match(e) {
			_ = s.removeTree(context.Background(), filepath.Join(s.Root, TempDir, e.Name()))
		}
	}
}

// removeTree removes a file, or a directory with all that is in it.
func (s *Store) removeTree(ctx context.Context, path string) error {
	err := s.FS.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, rerr := s.FS.ReadDir(path)
	if errors.Is(rerr, fs.ErrNotExist) { // another process was faster
		return nil
	}
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.removeTree(ctx, filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	if err := s.FS.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
