package bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/googleapis/gax-go/v2/callctx"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob:
	_ "gocloud.dev/blob/gcsblob"   // gs:
	_ "gocloud.dev/blob/memblob"   // mem:
	"gocloud.dev/gcerrors"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
)

const (
	defaultPartSize = 8 << 20
	minPartSize     = 5 << 20 // S3 refuses smaller ones
	// uploadParts are sent at once, while one more is being filled.
	uploadParts = 2
	// deletes run at once.
	deletes = 8
)

// store is the objects below a prefix of a bucket.
type store struct {
	blobs    *blob.Bucket
	where    string // for errors, the URL without parameters
	prefix   string // "" or ends with a slash
	partSize int64

	// For S3 alone, what blobs does not do, or does with more requests.
	client *s3.Client
	bucket string
	upload func(ctx context.Context, key string, r io.Reader, replace bool) error
}

func openStore(ctx context.Context, address string, partSize int64) (*store, error) {
	size, err := sizeOfParts(partSize)
	if err != nil {
		return nil, err
	}
	s, u, err := parseURL(address)
	if err != nil {
		return nil, err
	}
	s.partSize = size
	if u.Scheme == "s3" {
		err = s.openS3(ctx, u)
	} else {
		s.blobs, err = blob.OpenBucket(ctx, u.String())
	}
	if err != nil {
		return nil, fmt.Errorf("bucket: %s: %w", s.where, redact(err))
	}
	return s, nil
}

// sizeOfParts returns the size that an option PartSize means.
func sizeOfParts(option int64) (int64, error) {
	size := cmp.Or(option, defaultPartSize)
	if size < minPartSize {
		return 0, fmt.Errorf("bucket: PartSize is %d, must be at least %d", option, minPartSize)
	}
	return size, nil
}

// parseURL returns a store that is not open, and the URL of its bucket, without the prefix. Its errors show no credentials.
func parseURL(address string) (*store, *url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, errors.New("bucket: the URL cannot be read: want for example s3://BUCKET/PREFIX?region=REGION") // err would show its credentials
	}
	s := &store{bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	s.where = strings.TrimSuffix(u.Scheme+"://"+u.Host+"/"+s.prefix, "/")
	if s.prefix != "" {
		s.prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("bucket: %s: the part after the ? cannot be read: write NAME=VALUE, with & between them and %% as %%25", s.where)
	case u.Scheme == "" || u.Scheme == "file":
		return nil, nil, fmt.Errorf("bucket: %s is a local folder: use dir.Staging or dir.Tables of buffer/dir, which sync their files", s.where)
	case u.User != nil:
		return nil, nil, fmt.Errorf("bucket: the URL of %s has credentials: set them in the environment", s.where)
	case query.Has("prefix"):
		return nil, nil, fmt.Errorf("bucket: %s: write the prefix as the path of the URL", s.where)
	case u.Host == "" && u.Scheme != "mem":
		return nil, nil, fmt.Errorf("bucket: %s names no bucket: want for example s3://BUCKET/PREFIX?region=REGION", s.where)
	}
	u.Path = ""
	return s, u, nil
}

// blobParameters are the parameters of URLs that gocloud.dev/blob takes, by scheme. The value is true if it must be true or false.
func blobParameters(scheme string) map[string]bool {
	switch scheme {
	case "gs":
		return map[string]bool{"access_id": false, "private_key_path": false, "universe_domain": false, "anonymous": true, "grpc": true, "zonal": true}
	case "azblob":
		return map[string]bool{"domain": false, "protocol": false, "storage_account": false, "cdn": true, "localemu": true}
	}
	return nil
}

// ValidateURL returns an error if [Open], [OpenTables] and [OpenArchive] refuse a URL, whatever the credentials are. It sends nothing, and
// needs no credentials.
func ValidateURL(ctx context.Context, address string) error {
	s, u, err := parseURL(address)
	if err != nil {
		return err
	}
	if u.Scheme == "s3" {
		if err = s.openS3(ctx, u); err == nil {
			err = s.close()
		}
	} else if !blob.DefaultURLMux().ValidBucketScheme(u.Scheme) {
		err = errors.New("there is no such scheme: want s3://, gs:// or azblob://")
	} else if known := blobParameters(u.Scheme); known != nil { // to open these would look for credentials
		err = checkParameters(u.Query(), known)
	}
	if err != nil {
		return fmt.Errorf("bucket: %s: %w", s.where, redact(err))
	}
	return nil
}

func checkParameters(query url.Values, known map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		isBool, ok := known[name]
		if !ok {
			return fmt.Errorf("the URL has a parameter %q, it takes %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if _, err := strconv.ParseBool(query.Get(name)); isBool && err != nil {
			return fmt.Errorf("the parameter %s must be true or false", name)
		}
	}
	return nil
}

func (s *store) close() error { return s.blobs.Close() }

// named returns a context whose requests name Forebay and its version to Azure and Google. gocloud.dev/blob has no option for this. The client of
// Google keeps its own User-Agent, so the name is in its header X-Goog-Api-Client. The client of S3 is configured when it is made.
func named(ctx context.Context) context.Context {
	ctx = callctx.SetHeaders(ctx, "x-goog-api-client", driver.Product())
	return policy.WithHTTPHeader(ctx, http.Header{"User-Agent": {driver.Product()}})
}

// put stores an object unless the key is taken, and reports whether it was free.
func (s *store) put(ctx context.Context, key string, content func() (io.ReadCloser, error)) (stored bool, err error) {
	for attempt := range 4 {
		err = s.putOnce(ctx, s.prefix+key, content, false)
		if err == nil {
			return true, nil
		}
		if isTaken(err) {
			// Some stores refuse a put although the object does not exist yet, or no longer exists. Without the right to read, put assumes that the object exists.
			there, unknown := s.blobs.Exists(named(ctx), s.prefix+key)
			switch {
			case there || isRefused(unknown):
				return false, nil
			case unknown != nil:
				return false, unknown // if the object does not exist, its rows are nowhere
			}
		} else if !isRace(err) {
			break
		}
		// Several puts of a free key have met. The store has refused all, or all but one.
		if err := ctxio.Sleep(ctx, time.Duration(rand.Int64N(int64(50*time.Millisecond)<<attempt))); err != nil {
			return false, err
		}
	}
	if ctx.Err() != nil { // the SDKs wrap it in their own errors
		return false, ctx.Err()
	}
	return false, err
}

// putOnce stores an object whose key is free, or with replace whether it is free or not.
func (s *store) putOnce(ctx context.Context, key string, content func() (io.ReadCloser, error), replace bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rc, err := content()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &source{ctx: ctx, cancel: cancel, r: rc}
	if s.client != nil {
		err = s.upload(ctx, key, r, replace)
	} else {
		err = s.blobs.Upload(named(ctx), key, r, &blob.WriterOptions{
			IfNotExist: !replace, BufferSize: int(s.partSize), MaxConcurrency: uploadParts, ContentType: contentType,
		})
	}
	if r.err != nil {
		err = r.err // the cause of whatever the store says then
	}
	return errors.Join(err, rc.Close())
}

const contentType = "application/octet-stream"

// source is the content while it is uploaded. It ends with its context, and keeps the error that ended it.
type source struct {
	ctx    context.Context
	cancel context.CancelFunc // of the upload
	r      io.Reader
	err    error
}

// Read implements [io.Reader]. An error cancels the upload, because some drivers of gocloud.dev/blob store the bytes received until then.
func (s *source) Read(p []byte) (int, error) {
	n, err := 0, s.ctx.Err()
	if err == nil {
		n, err = s.r.Read(p)
	}
	if err != nil && err != io.EOF {
		s.err = err
		s.cancel()
	}
	return n, err
}

// open returns a reader of an object. For an absent one the error matches [fs.ErrNotExist].
func (s *store) open(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := s.blobs.NewReader(named(ctx), s.prefix+key, nil)
	if err != nil {
		return nil, s.absence(ctx, key, err)
	}
	return reader{r}, nil
}

// read appends to dst the bytes of an object from a place on, at most partSize of them, and returns its size. Errors are the errors of open.
func (s *store) read(ctx context.Context, key string, from int64, dst []byte) (piece []byte, size int64, err error) {
	return s.readRange(ctx, key, from, s.partSize, dst)
}

// readRange is read with another bound.
func (s *store) readRange(ctx context.Context, key string, from, most int64, dst []byte) (piece []byte, size int64, err error) {
	r, err := s.blobs.NewRangeReader(named(ctx), s.prefix+key, from, most, nil)
	if err != nil {
		return nil, 0, s.absence(ctx, key, err)
	}
	defer r.Close()
	buf := bytes.NewBuffer(dst)
	n, err := io.Copy(buf, r)
	if want := min(r.Size()-from, most); err == nil && n != want {
		err = fmt.Errorf("%s: %d bytes from byte %d on, want %d: %w", s.prefix+key, n, from, want, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, 0, redact(err)
	}
	return buf.Bytes(), r.Size(), nil
}

// absence returns the error of an object that could not be opened. It matches [fs.ErrNotExist] if the object is absent, and nothing else is wrong.
func (s *store) absence(ctx context.Context, key string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if gcerrors.Code(err) != gcerrors.NotFound || isRefused(err) {
		return err
	}
	// A bucket that is absent, a name that no server has and, from Google, a missing right look the same.
	if !isAbsent(err) {
		if _, _, err := s.blobs.ListPage(named(ctx), blob.FirstPageToken, 1, &blob.ListOptions{Prefix: s.prefix + key}); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}

// reader hides the other methods of a [blob.Reader], and the secrets that its errors may show.
type reader struct{ r *blob.Reader }

// Read implements [io.Reader].
func (r reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		err = redact(err)
	}
	return n, err
}

// Close implements [io.Closer].
func (r reader) Close() error { return r.r.Close() }

// delete removes objects. Absent ones are no error.
func (s *store) delete(ctx context.Context, keys []string) error {
	var wait sync.WaitGroup
	turns, errs := make(chan struct{}, deletes), make([]error, len(keys))
	for i, key := range keys {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = s.deleteOne(ctx, s.prefix+key)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *store) deleteOne(ctx context.Context, key string) error {
	if s.client != nil {
		return s.deleteS3(ctx, key)
	}
	err := s.blobs.Delete(named(ctx), key)
	if gcerrors.Code(err) != gcerrors.NotFound || isRefused(err) {
		return err
	}
	if !isAbsent(err) {
		_, _, err := s.blobs.ListPage(named(ctx), blob.FirstPageToken, 1, &blob.ListOptions{Prefix: key})
		return err
	}
	return nil
}

// folders calls each with the names of the folders below the prefix, ascending.
func (s *store) folders(ctx context.Context, each func(name string)) error {
	list := s.blobs.List(&blob.ListOptions{Prefix: s.prefix, Delimiter: "/"})
	for {
		o, err := list.Next(named(ctx))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if o.IsDir {
			each(strings.TrimSuffix(strings.TrimPrefix(o.Key, s.prefix), "/"))
		}
	}
}

// list calls each with the keys of all objects that begin with prefix, without the store's own prefix, in ascending order, and with the
// moments at which they were stored.
func (s *store) list(ctx context.Context, prefix string, each func(key string, at time.Time) error) error {
	list := s.blobs.List(&blob.ListOptions{Prefix: s.prefix + prefix})
	for {
		o, err := list.Next(named(ctx))
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = each(strings.TrimPrefix(o.Key, s.prefix), o.ModTime)
		}
		if err != nil {
			return err
		}
	}
}
