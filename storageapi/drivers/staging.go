package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/storageapi"
)

// StagingOptions configure a [Staging].
type StagingOptions struct {
	// Tokens, if not nil, has the tokens of sinks. A sink without a token uses the client's.
	Tokens TokenSource
	// Logger gets what could not be cleaned up. Default: warnings and errors go to [slog.Default], and [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Staging is a [driver.Staging] on files of the project. It is safe for concurrent use.
type Staging struct {
	client *storageapi.Client
	opts   StagingOptions

	mu    sync.Mutex // guards files, and is not held during calls
	files map[string]*stagedFile
}

var _ driver.Staging = (*Staging)(nil)

// stagedFile is the file of the project that takes the slices of one file of the buffer.
type stagedFile struct {
	mu        sync.Mutex // held while the manifest is written, and guards the fields below
	file      *storageapi.SlicedFile
	slices    []string // names in the manifest
	forgotten bool     // a different file takes the slices, so a goroutine that waited for mu looks for it
}

// NewStaging returns a staging. It makes no call.
func NewStaging(client *storageapi.Client, o StagingOptions) (*Staging, error) {
	if client == nil {
		return nil, errors.New("storage api staging: options: the client is nil")
	}
	o.Logger = warnlog.Or(o.Logger)
	return &Staging{client: client, opts: o, files: make(map[string]*stagedFile)}, nil
}

func ignoreNotFound(err error) error {
	if storageapi.IsNotFound(err) {
		return nil
	}
	return err
}

const (
	fileTag    = "forebay.fileID="
	deletedTag = "forebay.deleted="
	sourceTag  = "stream.sourceID="
	sinkTag    = "stream.sinkID="
	// renewBefore is how long before the end of its credentials a file gets no more slices.
	renewBefore = 10 * time.Minute
)

// sliceName is the name of an object in a file of the project.
func sliceName(obj driver.Object) string { return obj.ID + extension(obj.Encoding) }

func extension(e driver.Encoding) string {
	if e == driver.None {
		return ".csv"
	}
	return ".csv" + e.Extension()
}

// objectID is the reverse of sliceName.
func objectID(name string) string {
	id, _, _ := strings.Cut(name, ".")
	return id
}

// with calls do with the client of the sink's own token. Without such a token, or if it is no longer accepted, it uses the
// user's client.
func (s *Staging) with(ctx context.Context, sinkID string, do func(client *storageapi.Client) error) error {
	if s.opts.Tokens == nil {
		return do(s.client)
	}
	token, err := s.opts.Tokens.Get(ctx, sinkID)
	if err == nil {
		if err = do(s.client.WithToken(token.Token)); !storageapi.IsUnauthorized(err) {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return do(s.client)
}

// lock returns the staged file of a file of the buffer, with mu held until unlock. It may have no file of the project yet.
func (s *Staging) lock(fileID string) *stagedFile {
	for {
		s.mu.Lock()
		f := s.files[fileID]
		if f == nil {
			f = &stagedFile{}
			s.files[fileID] = f
		}
		s.mu.Unlock()
		f.mu.Lock()
		if !f.forgotten {
			return f
		}
		f.mu.Unlock()
	}
}

// unlock ends what lock began. It forgets a staged file that has no file of the project.
func (s *Staging) unlock(fileID string, f *stagedFile) {
	if f.file == nil {
		f.forgotten = true
		s.mu.Lock()
		delete(s.files, fileID)
		s.mu.Unlock()
	}
	f.mu.Unlock()
}

// prepare makes a file of the project unless the present one still takes slices. f.mu is held.
func (s *Staging) prepare(ctx context.Context, f *stagedFile, obj driver.Object) error {
	if f.file != nil {
		if end := f.file.Expires(); end.IsZero() || time.Until(end) > renewBefore {
			return nil
		}
		f.file = nil
	}
	f.slices = nil
	return s.with(ctx, obj.SinkID, func(client *storageapi.Client) (err error) {
		f.file, err = client.UploadSliced(ctx, prepareFile(obj.SinkID, obj.FileID))
		return err
	})
}

// prepareFile describes the file of the project for a file of the buffer.
func prepareFile(sinkID, fileID string) storageapi.FilePrepare {
	source, sink, _ := strings.Cut(sinkID, "/")
	return storageapi.FilePrepare{
		Name:     fmt.Sprintf("%s_%s_%s", source, sink, time.Now().UTC().Format("20060102150405")),
		Tags:     []string{fileTag + fileID, sourceTag + source, sinkTag + sink},
		IsSliced: true,
	}
}

// Put implements [driver.Staging]. The slice and a manifest that names it are stored when it returns nil.
func (s *Staging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	var err error
	gone := false
	for range maxReplaced {
		err = s.put(ctx, obj, src)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errReplaced): // its last other slice was deleted meanwhile, and the file with it
			continue
		case isGone(err) && !gone: // the next attempt makes another file
			gone = true
			continue
		}
		break
	}
	return fmt.Errorf("storage api staging: put %s: %w", obj.ID, err)
}

// maxReplaced bounds how often an upload begins again with a new file of the project.
const maxReplaced = 8

var errReplaced = errors.New("the file was replaced during the upload")

// isGone reports whether the object store refuses all further uploads to the file.
func isGone(err error) bool {
	var e *storageapi.Error
	return errors.As(err, &e) && (e.Status == 403 || e.Status == 404)
}

func (s *Staging) put(ctx context.Context, obj driver.Object, src driver.Content) error {
	f := s.lock(obj.FileID)
	err := s.prepare(ctx, f, obj)
	file := f.file
	s.unlock(obj.FileID, f)
	if err != nil {
		return err
	}
	// An upload must say its size first. Reading twice costs less than to keep the bytes.
	size, err := src.WriteTo(ctxio.Writer(ctx, io.Discard))
	if err != nil {
		return err
	}
	name := sliceName(obj)
	err = file.Put(ctx, name, storageapi.Source{Size: size, Open: src.Open})
	f = s.lock(obj.FileID)
	defer s.unlock(obj.FileID, f)
	if f.file != file {
		return errReplaced // an upload that failed failed for that
	}
	names := f.slices
	if !slices.Contains(names, name) {
		names = append(slices.Clone(names), name)
	}
	if err == nil {
		err = file.Commit(ctx, names...)
	}
	if err == nil {
		f.slices = names
	} else if isGone(err) { // the credentials have ended, or the file was deleted
		f.file = nil
	}
	return err
}

// located is a file of the project that has slices of a file of the buffer.
type located struct {
	*storageapi.StoredFile
	slices []string // names that are not deleted
}

// locate finds the files of the project for a file of the buffer, the newest first.
func (s *Staging) locate(ctx context.Context, client *storageapi.Client, fileID string) ([]located, error) {
	var out []located
	for f, err := range client.Files(ctx, storageapi.FileQuery{Tags: []string{fileTag + fileID}}) {
		if err != nil {
			return nil, err
		}
		stored, err := client.Download(ctx, f.ID)
		if storageapi.IsNotFound(err) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		names, err := stored.Slices(ctx)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.Contains(f.Tags, deletedTag+objectID(name))
		})
		out = append(out, located{stored, names})
	}
	return out, nil
}

// Open implements [driver.Staging].
func (s *Staging) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	var rc io.ReadCloser
	err := s.with(ctx, obj.SinkID, func(client *storageapi.Client) (err error) {
		rc, err = s.open(ctx, client, obj)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("storage api staging: open %s: %w", obj.ID, err)
	}
	return rc, nil
}

func (s *Staging) open(ctx context.Context, client *storageapi.Client, obj driver.Object) (io.ReadCloser, error) {
	files, err := s.locate(ctx, client, obj.FileID)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if slices.Contains(f.slices, sliceName(obj)) {
			return f.OpenSlice(ctx, sliceName(obj))
		}
	}
	return nil, fs.ErrNotExist
}

// Delete implements [driver.Staging]. A file of the project goes when its last slice does.
func (s *Staging) Delete(ctx context.Context, objs ...driver.Object) error {
	byFile := make(map[string][]driver.Object)
	var order []string
	for _, obj := range objs {
		if byFile[obj.FileID] == nil {
			order = append(order, obj.FileID)
		}
		byFile[obj.FileID] = append(byFile[obj.FileID], obj)
	}
	for _, fileID := range order {
		err := s.with(ctx, byFile[fileID][0].SinkID, func(client *storageapi.Client) error {
			return s.deleteOf(ctx, client, fileID, byFile[fileID])
		})
		if err != nil {
			return fmt.Errorf("storage api staging: delete slices of file %s: %w", fileID, err)
		}
	}
	return nil
}

func (s *Staging) deleteOf(ctx context.Context, client *storageapi.Client, fileID string, objs []driver.Object) error {
	var names []string
	for _, obj := range objs {
		names = append(names, sliceName(obj))
	}
	// The lock keeps put from adding to the manifest meanwhile.
	staged := s.lock(fileID)
	defer s.unlock(fileID, staged)
	files, err := s.locate(ctx, client, fileID)
	if err != nil {
		return err
	}
	for _, f := range files {
		left := slices.DeleteFunc(slices.Clone(f.slices), func(name string) bool { return slices.Contains(names, name) })
		id := f.File().ID
		current := staged.file != nil && staged.file.ID() == id
		switch {
		case len(left) == 0 && (!current || len(f.slices) > 0):
			if err := client.DeleteFile(ctx, id); err != nil {
				return err
			}
			if current {
				staged.file, staged.slices = nil, nil
			}
		case len(left) == len(f.slices):
		case current:
			if err := staged.file.Commit(ctx, left...); err != nil {
				return err
			}
			staged.slices = left
		default:
			for _, name := range f.slices {
				if slices.Contains(left, name) {
					continue
				}
				if err := client.AddFileTag(ctx, id, deletedTag+objectID(name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inPlace returns the file of the project whose slices are exactly these objects in their order, if there is one. It rewrites
// the manifest if that helps.
func (s *Staging) inPlace(ctx context.Context, client *storageapi.Client, objs []driver.Object) (storageapi.IntID, bool, error) {
	var names []string
	for _, obj := range objs {
		if obj.Encoding == driver.Zstd || obj.Encoding != objs[0].Encoding || obj.FileID != objs[0].FileID {
			return 0, false, nil
		}
		names = append(names, sliceName(obj))
	}
	files, err := s.locate(ctx, client, objs[0].FileID)
	if err != nil {
		return 0, false, err
	}
	for _, f := range files {
		deleted := slices.ContainsFunc(f.File().Tags, func(tag string) bool { return strings.HasPrefix(tag, deletedTag) })
		if slices.Equal(f.slices, names) && !deleted {
			return f.File().ID, true, nil
		}
		if done, err := s.reorder(ctx, objs[0].FileID, f.File().ID, names); err != nil || done {
			return f.File().ID, done, err
		}
	}
	return 0, false, nil
}

// reorder rewrites the manifest of a file that still takes slices, if it has exactly these.
func (s *Staging) reorder(ctx context.Context, fileID string, id storageapi.IntID, names []string) (bool, error) {
	staged := s.lock(fileID)
	defer s.unlock(fileID, staged)
	if staged.file == nil || staged.file.ID() != id || len(staged.slices) != len(names) {
		return false, nil
	}
	for _, name := range names {
		if !slices.Contains(staged.slices, name) {
			return false, nil
		}
	}
	if err := staged.file.Commit(ctx, names...); err != nil {
		return false, err
	}
	staged.slices = names
	return true, nil
}
