package bucket

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// Options are options of [Open]. The zero value is ready to use.
type Options struct {
	// PartSize is the size in bytes of the parts of a large slice, and of their buffers. The default is 8 MiB, the least 5 MiB. A slice
	// has at most 10,000 parts.
	PartSize int64
}

// Staging is a [driver.Staging] in a bucket. It is safe for concurrent use, even by several processes.
type Staging struct{ objects *store }

var _ driver.Staging = (*Staging)(nil)

// Open returns a staging in the bucket of a URL:
//
//	s3://BUCKET/PREFIX?region=…              S3, and with endpoint=https://… every store that speaks its protocol
//	gs://BUCKET/PREFIX                       Google Cloud Storage
//	azblob://CONTAINER/PREFIX                Azure Blob Storage
//	mem://                                   memory, for tests
//
// Any other scheme that the program has registered with gocloud.dev/blob works too. Local folders do not. Use buffer/dir, which syncs its
// writes. gocloud.dev/blob names the parameters, and docs/drivers/bucket.md lists the parameters for S3. Open sends nothing to the bucket.
//
// Several engines may share a prefix.
func Open(ctx context.Context, url string, o Options) (*Staging, error) {
	objects, err := openStore(ctx, url, o.PartSize)
	if err != nil {
		return nil, err
	}
	return &Staging{objects}, nil
}

// Close ends idle connections. Calls must have returned.
func (s *Staging) Close() error { return s.objects.close() }

const (
	sliceExtension = ".slice"
	// slicesOfEngine stands between the name of an engine and the number in the id of a slice.
	slicesOfEngine = "-s"
)

// Put implements [driver.Staging]. An object that is already stored is kept if it has the same rows. Otherwise the error is a
// [driver.Permanent] one, because another program has put an object there, or another engine runs on a copy of the data directory.
func (s *Staging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if err := parts.CheckID("object", obj.ID); err != nil {
		return err
	}
	stored, err := s.objects.put(ctx, obj.ID+sliceExtension, src.Open)
	if err == nil && !stored {
		err = s.compare(ctx, obj, src)
	}
	return s.objects.explain("put", obj.ID, err)
}

// compare reads the object that has the key of obj, because once Put returns nil, its rows are nowhere else. Attempts may have encoded the same
// rows in other bytes.
func (s *Staging) compare(ctx context.Context, obj driver.Object, src driver.Content) error {
	seed, key := maphash.MakeSeed(), obj.ID+sliceExtension
	own, err := src.Open()
	if err != nil {
		return err
	}
	want, err := checksum(seed, obj.Encoding, own)
	if err != nil {
		return err
	}
	rc, err := s.objects.open(ctx, key)
	if err != nil {
		return err
	}
	stored := &notedReader{ReadCloser: rc}
	got, err := checksum(seed, obj.Encoding, stored)
	if stored.err != nil {
		return stored.err
	}
	if err != nil || got != want {
		return driver.Permanent(fmt.Errorf("%s is an object with other rows: move it away; the slice is then put", s.objects.prefix+key))
	}
	return nil
}

// checksum decodes an object and closes it.
func checksum(seed maphash.Seed, e driver.Encoding, rc io.ReadCloser) (uint64, error) {
	plain, err := driver.Decode(e, rc)
	if err != nil {
		return 0, err
	}
	var h maphash.Hash
	h.SetSeed(seed)
	_, err = io.Copy(&h, plain)
	return h.Sum64(), errors.Join(err, plain.Close())
}

// notedReader keeps the error that ended it, to tell an object that cannot be read from one that cannot be decoded.
type notedReader struct {
	io.ReadCloser
	err error
}

// Read implements [io.Reader].
func (r *notedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// Open implements [driver.Staging].
func (s *Staging) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	if err := parts.CheckID("object", obj.ID); err != nil {
		return nil, err
	}
	rc, err := s.objects.open(ctx, obj.ID+sliceExtension)
	if err != nil {
		return nil, s.objects.explain("open", obj.ID, err)
	}
	return rc, nil
}

// Delete implements [driver.Staging].
func (s *Staging) Delete(ctx context.Context, objs ...driver.Object) error {
	for _, obj := range objs {
		if err := parts.CheckID("object", obj.ID); err != nil {
			return err
		}
	}
	keys := make([]string, len(objs))
	for i, obj := range objs {
		keys[i] = obj.ID + sliceExtension
	}
	return s.objects.explain("delete", fmt.Sprintf("%d objects", len(objs)), s.objects.delete(ctx, keys))
}
