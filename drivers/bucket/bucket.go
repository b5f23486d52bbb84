package bucket

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/parts"
)

// Options are options of [Open]. The zero value is ready to use.
type Options struct {
	// PartSize is the size in bytes of the parts of a large slice, and of their buffers. The default is 8 MiB, the least 5 MiB. A slice
	// has at most 10,000 parts.
	PartSize int64
}

// Staging is a [buffer.Staging] in a bucket. It is safe for concurrent use, also by several processes.
type Staging struct{ objects *store }

var _ buffer.Staging = (*Staging)(nil)

// Open returns a staging in the bucket of a URL:
//
//	s3://BUCKET/PREFIX?region=…              S3, and with endpoint=https://… every store that speaks its protocol
//	gs://BUCKET/PREFIX                       Google Cloud Storage
//	azblob://CONTAINER/PREFIX                Azure Blob Storage
//	mem://                                   memory, for tests
//
// Any other scheme that the program has registered with gocloud.dev/blob works too. Local folders do not: use buffer/dir, which syncs
// what it writes. gocloud.dev/blob names the parameters; docs/drivers/bucket.md lists the ones for S3. Open sends nothing to the bucket.
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

// Put implements [buffer.Staging]. An object that is already stored is kept if it has the same rows. Otherwise the error is a
// [buffer.Permanent] one: somebody has put another object there, or another engine runs on a copy of the data directory.
func (s *Staging) Put(ctx context.Context, obj buffer.Object, src buffer.Content) error {
	if err := parts.CheckID("object", obj.ID); err != nil {
		return err
	}
	stored, err := s.objects.put(ctx, obj.ID+sliceExtension, src.Open)
	if err == nil && !stored {
		err = s.compare(ctx, obj, src)
	}
	return s.objects.explain("put", obj.ID, err)
}

// compare reads the object that has the key of obj: once Put returns nil, its rows are nowhere else. Attempts may have encoded the same
// rows in other bytes.
func (s *Staging) compare(ctx context.Context, obj buffer.Object, src buffer.Content) error {
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
		return buffer.Permanent(fmt.Errorf("%s is an object with other rows: move it away; the slice is then put", s.objects.prefix+key))
	}
	return nil
}

// checksum decodes an object and closes it.
func checksum(seed maphash.Seed, e buffer.Encoding, rc io.ReadCloser) (uint64, error) {
	plain, err := buffer.Decode(e, rc)
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

// Open implements [buffer.Staging].
func (s *Staging) Open(ctx context.Context, obj buffer.Object) (io.ReadCloser, error) {
	if err := parts.CheckID("object", obj.ID); err != nil {
		return nil, err
	}
	rc, err := s.objects.open(ctx, obj.ID+sliceExtension)
	if err != nil {
		return nil, s.objects.explain("open", obj.ID, err)
	}
	return rc, nil
}

// Delete implements [buffer.Staging].
func (s *Staging) Delete(ctx context.Context, objs ...buffer.Object) error {
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

// RemoveOrphans deletes slices of one engine that nobody asks for any more, and returns their number. An attempt that the buffer has
// abandoned can leave one. oldest is the lowest id of a slice that the engine knows. The call deletes slices of this engine with a lower id
// that were stored longer ago than age. [buffer.Inspect] lists the slices of a closed engine, or of a checkpoint of a running one. An engine
// whose store was damaged may have forgotten slices that somebody still wants: choose an age that leaves time to find out.
func (s *Staging) RemoveOrphans(ctx context.Context, oldest string, age time.Duration) (removed int, err error) {
	if err := parts.CheckID("object", oldest); err != nil {
		return 0, err
	}
	engine := oldest[:strings.LastIndex(oldest, slicesOfEngine)+1] // with the minus
	if engine == "" || strings.HasSuffix(oldest, slicesOfEngine) {
		return 0, fmt.Errorf("bucket: %q is not the id of a slice: want for example 63c7be43891c-s000000000004", oldest)
	}
	before := time.Now().Add(-age)
	var orphans []string
	err = s.objects.list(ctx, engine+slicesOfEngine[1:], func(key string, at time.Time) error {
		id, ok := strings.CutSuffix(key, sliceExtension)
		ours := ok && len(id) == len(oldest) && strings.LastIndexByte(id, '-') == len(engine)-1 // an engine may be named a-s
		if ours && id < oldest && at.Before(before) {
			orphans = append(orphans, key)
		}
		return nil
	})
	if err == nil {
		err = s.objects.delete(ctx, orphans)
	}
	if err != nil {
		return 0, s.objects.explain("remove", "orphans", err)
	}
	return len(orphans), nil
}

// RemoveUploads aborts the uploads in parts below the prefix that were begun longer ago than age and are not complete, and returns
// their number. A process that is killed while it stores a large slice leaves one. S3 charges for its parts and shows them in no listing of
// objects. A put that is still under way fails and is repeated. Google and Azure discard such parts by themselves after a week, and the call
// does nothing there. A lifecycle rule of the bucket (AbortIncompleteMultipartUpload) does the same without this call.
func (s *Staging) RemoveUploads(ctx context.Context, age time.Duration) (removed int, err error) {
	removed, err = s.objects.removeUploads(ctx, time.Now().Add(-age))
	return removed, s.objects.explain("remove", "open uploads", err)
}
