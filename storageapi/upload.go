package storageapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Source is the bytes of an upload. They are the same at each reading.
type Source struct {
	// Size is the number of bytes.
	Size int64
	// Open begins a reading. The reader is closed by the upload.
	Open func() (io.ReadCloser, error)
	// Progress, if not nil, is called with the number of bytes that have been read of Size, in steps of the connection's
	// choice and from its goroutine. A repeated upload begins again at 0.
	Progress func(sent, size int64)
}

// BytesSource is the source of a slice, which must not be changed during the upload.
func BytesSource(data []byte) Source {
	return Source{Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// watchedReader remembers why reading failed, because net/http does not always return it. The transport may still read after it has
// returned the response, so stop waits for a read in progress, closes the source, and no read reaches it afterwards.
type watchedReader struct {
	r io.ReadCloser

	mu      sync.Mutex // held while r is read or closed
	err     error
	stopped bool
}

func (w *watchedReader) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return 0, errStopped
	}
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

var errStopped = errors.New("the upload has ended")

// stop closes the source. It waits for a read in progress.
func (w *watchedReader) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.r.Close()
}

func (w *watchedReader) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// sizedReader reports the progress, and fails when there are fewer bytes than were promised.
type sizedReader struct {
	io.ReadCloser
	sent     int64
	size     int64
	progress func(sent, size int64)
}

func (r *sizedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.sent += int64(n)
	if r.progress != nil && n > 0 {
		r.progress(r.sent, r.size)
	}
	switch {
	case r.sent > r.size:
		return 0, fmt.Errorf("the source has more than the %d bytes that were promised", r.size)
	case err == io.EOF && r.sent < r.size:
		return n, fmt.Errorf("the source has %d of the %d bytes that were promised", r.sent, r.size)
	}
	return n, err
}

// Upload makes a file of one source. When it returns nil, the bytes are stored. On an error it tries to delete the record, which
// may remain without bytes.
func (c *Client) Upload(ctx context.Context, in FilePrepare, src Source) (*File, error) {
	in.IsSliced = false
	in.SizeBytes = cmp.Or(in.SizeBytes, src.Size)
	f, err := c.PrepareFile(ctx, in)
	if err != nil {
		return nil, err
	}
	store, err := c.uploadStore(f)
	if err == nil {
		err = c.put(ctx, store, "", src)
	}
	if err != nil {
		return nil, errors.Join(err, c.DeleteFile(context.WithoutCancel(ctx), f.ID))
	}
	return f, nil
}

// SlicedFile is a file that is uploaded in slices. Slices may be uploaded concurrently. Only the slices that the last call of
// Commit names are part of the file.
type SlicedFile struct {
	client *Client
	store  *objectStore
	file   *File
}

// UploadSliced makes the record of a sliced file.
func (c *Client) UploadSliced(ctx context.Context, in FilePrepare) (*SlicedFile, error) {
	in.IsSliced = true
	f, err := c.PrepareFile(ctx, in)
	if err != nil {
		return nil, err
	}
	store, err := c.uploadStore(f)
	if err != nil {
		return nil, errors.Join(err, c.DeleteFile(context.WithoutCancel(ctx), f.ID))
	}
	return &SlicedFile{client: c, store: store, file: f}, nil
}

// ID returns the id of the file.
func (s *SlicedFile) ID() IntID { return s.file.ID }

// Expires returns the end of the credentials of the upload, zero if it is not known.
func (s *SlicedFile) Expires() time.Time { return s.store.expires }

// Put uploads one slice, which replaces one of the same name. A name that ends in ".gz" says that it is compressed.
func (s *SlicedFile) Put(ctx context.Context, name string, src Source) error {
	if name == "" || name == ManifestName {
		return fmt.Errorf("storage api: file %d: a slice cannot be named %q", s.file.ID, name)
	}
	return s.client.put(ctx, s.store, name, src)
}

// manifest is the list of the slices of a file.
type manifest struct {
	Entries []manifestEntry `json:"entries"`
}

type manifestEntry struct {
	URL string `json:"url"`
}

// Commit writes the manifest. The file then has these slices in this order. It may be called again.
func (s *SlicedFile) Commit(ctx context.Context, names ...string) error {
	m := manifest{Entries: []manifestEntry{}}
	for _, name := range names {
		m.Entries = append(m.Entries, manifestEntry{s.store.name + name})
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.client.put(ctx, s.store, ManifestName, BytesSource(data))
}

// StoredFile is a file whose bytes can be read.
type StoredFile struct {
	client *Client
	store  *objectStore
	file   *File
}

// Download gets the credentials for reading a file. It does not read yet.
func (c *Client) Download(ctx context.Context, id IntID) (*StoredFile, error) {
	f, err := c.FileWithCredentials(ctx, id)
	if err != nil {
		return nil, err
	}
	store, err := c.downloadStore(f)
	if err != nil {
		return nil, err
	}
	return &StoredFile{client: c, store: store, file: f}, nil
}

// File returns the record of the file.
func (s *StoredFile) File() *File { return s.file }

// Open returns the bytes of a file that is not sliced. The caller closes the reader. Bytes that were never uploaded
// are an error that matches [io/fs.ErrNotExist]. A sliced file, which every export of a table is, has no such bytes, so read it
// with [StoredFile.OpenSlices].
func (s *StoredFile) Open(ctx context.Context) (io.ReadCloser, error) {
	if s.file.IsSliced {
		return nil, fmt.Errorf("storage api: file %d %q is sliced: read it with OpenSlices", s.file.ID, s.file.Name)
	}
	return s.client.get(ctx, s.store, "")
}

// OpenSlice returns the bytes of one slice, as [StoredFile.Open] does.
func (s *StoredFile) OpenSlice(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.client.get(ctx, s.store, name)
}

// OpenSlices returns the bytes of all slices one after the other. Compressed slices form one stream of gzip. ctx also bounds the
// reading. The caller closes the reader.
func (s *StoredFile) OpenSlices(ctx context.Context) (io.ReadCloser, error) {
	names, err := s.Slices(ctx)
	if err != nil {
		return nil, err
	}
	return &sliceReader{ctx: ctx, file: s, names: names}, nil
}

// sliceReader reads slices one after the other. A slice is opened when the one before it has ended.
type sliceReader struct {
	ctx   context.Context
	file  *StoredFile
	names []string
	slice io.ReadCloser
}

func (r *sliceReader) Read(p []byte) (int, error) {
	for {
		if r.slice == nil {
			if len(r.names) == 0 {
				return 0, io.EOF
			}
			slice, err := r.file.OpenSlice(r.ctx, r.names[0])
			if err != nil {
				return 0, err
			}
			r.slice, r.names = slice, r.names[1:]
		}
		n, err := r.slice.Read(p)
		if err == io.EOF {
			err = r.Close()
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func (r *sliceReader) Close() error {
	if r.slice == nil {
		return nil
	}
	slice := r.slice
	r.slice = nil
	return slice.Close()
}

// maxManifest bounds the bytes read of a manifest.
const maxManifest = 64 << 20

// Slices reads the names of the slices from the manifest. A file without a manifest is an error that matches
// [io/fs.ErrNotExist].
func (s *StoredFile) Slices(ctx context.Context) ([]string, error) {
	if !s.file.IsSliced {
		return nil, fmt.Errorf("storage api: file %d %q is not sliced: read it with Open", s.file.ID, s.file.Name)
	}
	rc, err := s.client.get(ctx, s.store, ManifestName)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	var m manifest
	if err := json.NewDecoder(io.LimitReader(rc, maxManifest)).Decode(&m); err != nil {
		return nil, fmt.Errorf("storage api: file %d: read manifest: %w", s.file.ID, err)
	}
	names := make([]string, len(m.Entries))
	for i, e := range m.Entries {
		// The account of an address is not known from the credentials for reading.
		name, ok := sliceName(e.URL, s.store.name)
		if !ok {
			return nil, fmt.Errorf("storage api: file %d: slice %d of the manifest is not in the file", s.file.ID, i)
		}
		names[i] = name
	}
	return names, nil
}

// sliceName returns the name of a slice from its address and the address of its file. Hosts are not compared. For Azure
// the path before the container is not compared either, because it belongs to the endpoint, and the address may be the
// endpoint's.
func sliceName(slice, file string) (string, bool) {
	scheme, slicePath, ok := strings.Cut(slice, "://")
	fileScheme, filePath, _ := strings.Cut(file, "://")
	endpoint := fileScheme == ProviderAzure && (scheme == "http" || scheme == "https")
	if !ok || scheme != fileScheme && !endpoint {
		return "", false
	}
	if fileScheme == ProviderAzure {
		_, filePath, _ = strings.Cut(filePath, "/")
		_, name, ok := strings.Cut(slicePath, "/"+filePath)
		return name, ok && name != ""
	}
	name, ok := strings.CutPrefix(slicePath, filePath)
	return name, ok && name != ""
}
