package iceberg

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// registerLocalFiles replaces the local files of iceberg-go, in the whole process, by ones that are synced. The registry of the library
// is the only way to reach the metadata files of a catalog.
var registerLocalFiles = sync.OnceFunc(func() {
	files := &localFiles{}
	for _, scheme := range []string{"file", ""} {
		icebergio.Unregister(scheme)
		icebergio.Register(scheme, func(context.Context, *url.URL, map[string]string) (icebergio.IO, error) { return files, nil })
	}
})

// localFiles are files whose bytes and names are on disk when their writer is closed without an error.
type localFiles struct {
	icebergio.LocalFS
	named sync.Map // folders whose names are known to be durable
}

var _ icebergio.WriteFileIO = (*localFiles)(nil)

func (f *localFiles) Create(name string) (icebergio.FileWriter, error) {
	w, err := f.LocalFS.Create(name)
	if err != nil {
		return nil, err
	}
	file := w.(*os.File)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() { // never a device that all users share
		_ = file.Chmod(0o600) // some file systems have no permissions
	}
	return &syncedFile{file, f}, nil
}

func (f *localFiles) WriteFile(name string, content []byte) error {
	w, err := f.Create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return errors.Join(err, w.Close())
}

// Remove also succeeds if the file is absent. The expiry of a snapshot names files that an earlier expiry has removed, and would stop at an
// error.
func (f *localFiles) Remove(name string) error {
	if err := f.LocalFS.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

type syncedFile struct {
	*os.File
	files *localFiles
}

func (f *syncedFile) Close() error {
	if err := errors.Join(f.Sync(), f.File.Close()); err != nil {
		return err
	}
	return f.files.syncFolders(filepath.Dir(f.Name()))
}

// syncFolders makes the names of the new files in a folder durable, and the names of the folders above them.
func (f *localFiles) syncFolders(dir string) error {
	for {
		if err := syncFolder(dir); err != nil {
			return err
		}
		parent := filepath.Dir(dir)
		if _, known := f.named.Load(dir); known || parent == dir {
			return nil
		}
		if err := syncFolder(parent); errors.Is(err, os.ErrPermission) {
			return nil // far above the warehouse
		} else if err != nil {
			return err
		}
		f.named.Store(dir, true)
		dir = parent
	}
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// recordedFiles notes the files that an attempt creates, so that they can be removed if it commits nothing.
type recordedFiles struct {
	icebergio.WriteFileIO
	mu    sync.Mutex
	names []string
}

// recordCreated returns a table whose created files are noted.
func recordCreated(ctx context.Context, tbl *table.Table) (*table.Table, *recordedFiles, error) {
	files, err := tbl.FS(ctx)
	if err != nil {
		return nil, nil, err
	}
	writable, ok := files.(icebergio.WriteFileIO)
	if !ok {
		return nil, nil, table.ErrWriteIORequired
	}
	created := &recordedFiles{WriteFileIO: writable}
	return table.New(tbl.Identifier(), tbl.Metadata(), tbl.MetadataLocation(),
		func(context.Context) (icebergio.IO, error) { return created, nil }, nil), created, nil
}

func (f *recordedFiles) Create(name string) (icebergio.FileWriter, error) {
	f.mu.Lock()
	f.names = append(f.names, name)
	f.mu.Unlock()
	return f.WriteFileIO.Create(name)
}

// remove removes the created files. A file that stays is an orphan, to which no table refers.
func (f *recordedFiles) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names {
		_ = f.Remove(name)
	}
	f.names = nil
}
