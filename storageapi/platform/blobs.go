package platform

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// blobs is the object store for the files of the API. It has one folder for each file, named by its id, with one disk file
// for each blob. Writes are atomic, and durable when the call returns.
type blobs struct {
	root  string
	temps atomic.Int64
}

const tempPrefix = ".tmp-"

func openBlobs(root string) (*blobs, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	return &blobs{root: root}, syncDir(filepath.Dir(root))
}

func (b *blobs) folder(file int64) string { return filepath.Join(b.root, strconv.FormatInt(file, 10)) }

// blobFile is the name of a blob on disk, escaped if that is short enough, else a hash.
func blobFile(name string) string { return diskName("b-", "h-", name) }

func diskName(readable, hashed, name string) string {
	if escaped := readable + url.PathEscape(name); len(escaped) <= 200 {
		return escaped
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:])
}

func (b *blobs) path(file int64, name string) string {
	return filepath.Join(b.folder(file), blobFile(name))
}

// put stores a blob. An earlier one of the name is replaced.
func (b *blobs) put(file int64, name string, src io.Reader) (int64, error) {
	return b.write(file, name, func(w io.Writer) error {
		_, err := io.Copy(w, src)
		return err
	})
}

func (b *blobs) write(file int64, name string, fill func(w io.Writer) error) (int64, error) {
	return b.writeAt(file, b.path(file, name), fill)
}

func (b *blobs) writeAt(file int64, path string, fill func(w io.Writer) error) (int64, error) {
	if err := ensureDir(b.folder(file)); err != nil {
		return 0, err
	}
	return writeDurably(path, fmt.Sprint(b.temps.Add(1)), fill)
}

// create starts a blob that the caller writes in pieces.
func (b *blobs) create(file int64, name string) (*durableFile, error) {
	if err := ensureDir(b.folder(file)); err != nil {
		return nil, err
	}
	return createDurably(b.path(file, name), fmt.Sprint(b.temps.Add(1)))
}

// open opens a blob. For a missing one the error matches fs.ErrNotExist.
func (b *blobs) open(file int64, name string) (*os.File, error) { return os.Open(b.path(file, name)) }

func (b *blobs) stat(file int64, name string) (os.FileInfo, error) {
	return os.Stat(b.path(file, name))
}

// remove removes a blob with its properties. For a missing one the error matches fs.ErrNotExist.
func (b *blobs) remove(file int64, name string) error {
	err := os.Remove(b.path(file, name))
	if e := b.setProperties(file, name, nil); e != nil {
		return e
	}
	return err
}

// putBlock stores a part of a blob, and putBlocks joins them.
func (b *blobs) putBlock(file int64, name, block string, src io.Reader) error {
	_, err := b.writeAt(file, b.blockPath(file, name, block), func(w io.Writer) error {
		_, err := io.Copy(w, src)
		return err
	})
	return err
}

// blockPath is the file of a block. No blob has that name, because none has a NUL in it.
func (b *blobs) blockPath(file int64, name, block string) string {
	return filepath.Join(b.folder(file), diskName("k-", "kh-", name+"\x00"+block))
}

// putBlocks joins parts to a blob and removes them.
func (b *blobs) putBlocks(file int64, name string, list []string) error {
	_, err := b.write(file, name, func(w io.Writer) error {
		for _, block := range list {
			f, err := os.Open(b.blockPath(file, name, block))
			if err != nil {
				return err
			}
			_, err = io.Copy(w, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, block := range list {
		_ = os.Remove(b.blockPath(file, name, block)) // what stays goes with the file
	}
	return nil
}

// removeUnfinished removes blobs that a crash left half written.
func (b *blobs) removeUnfinished(file int64) error {
	left, err := filepath.Glob(filepath.Join(b.folder(file), tempPrefix+"*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// removeAll removes every blob of a file.
func (b *blobs) removeAll(file int64) error { return os.RemoveAll(b.folder(file)) }

// files lists the ids of files that have a folder.
func (b *blobs) files() ([]int64, error) {
	entries, err := os.ReadDir(b.root)
	var ids []int64
	for _, e := range entries {
		if id, err := strconv.ParseInt(e.Name(), 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// ensureDir makes one directory durably.
func ensureDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// durableFile is a file under a temporary name. It gets its own name when it is complete.
type durableFile struct {
	*bufio.Writer
	f          *os.File
	temp, path string
}

// createDurably starts a file. temp makes its temporary name unique. The caller calls commit or abandon.
func createDurably(path, temp string) (*durableFile, error) {
	tempPath := filepath.Join(filepath.Dir(path), tempPrefix+temp)
	f, err := os.OpenFile(tempPath, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &durableFile{bufio.NewWriterSize(f, 128<<10), f, tempPath, path}, nil
}

// commit makes the file durable under its name and returns its size.
func (d *durableFile) commit() (size int64, err error) {
	if err = d.Flush(); err == nil {
		size, err = d.f.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		err = d.f.Sync()
	}
	if err = errors.Join(err, d.f.Close()); err == nil {
		err = os.Rename(d.temp, d.path)
	}
	if err != nil {
		_ = os.Remove(d.temp)
		return 0, err
	}
	return size, syncDir(filepath.Dir(d.path))
}

func (d *durableFile) abandon() {
	_ = d.f.Close()
	_ = os.Remove(d.temp) // what stays goes at the next opening
}

// writeDurably writes a file as a whole.
func writeDurably(path, temp string, fill func(w io.Writer) error) (size int64, err error) {
	d, err := createDurably(path, temp)
	if err != nil {
		return 0, err
	}
	if err := fill(d); err != nil {
		d.abandon()
		return 0, err
	}
	return d.commit()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// contextReader fails when the context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// blobName is the public name of the blobs of a file. The name of a slice is appended to it.
func blobName(file int64, sliced bool) string {
	if sliced {
		return "f" + strconv.FormatInt(file, 10) + "/"
	}
	return "f" + strconv.FormatInt(file, 10)
}

// parseBlobName splits a blob's name into the file and the name inside of it, which is "" for a file that is not sliced.
func parseBlobName(name string) (file int64, inner string, ok bool) {
	head, inner, _ := strings.Cut(name, "/")
	digits, ok := strings.CutPrefix(head, "f")
	if !ok {
		return 0, "", false
	}
	file, err := strconv.ParseInt(digits, 10, 64)
	return file, inner, err == nil && len(inner) < 1024 && !strings.Contains(inner, "\x00")
}

// sliceURL is the address of a slice in the manifest of its file.
func sliceURL(file int64, slice string) string {
	return "azure://" + blobAccount + ".blob.core.windows.net/" + blobContainer + "/" + blobName(file, true) + slice
}
