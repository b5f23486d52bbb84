package bucket

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/forebay/forebay/driverkit/parts"
)

// Leftover is an object, or an incomplete upload in parts, that is no longer needed.
type Leftover struct {
	// Key is the key below the prefix, At when the object was stored or the upload was begun.
	Key string
	At  time.Time

	upload string // its id
}

// Orphans lists slices of one engine that it no longer needs. An attempt that the buffer has abandoned can leave one. oldest is the lowest
// id of a slice that the engine knows, or the id of its next slice if it knows none (buffer.Inspection.NextSlice). The call finds slices of
// this engine with a lower id that were stored longer ago than age. buffer.Inspect lists the slices of a closed engine, or of a checkpoint of a
// running one. An engine whose store was damaged may have forgotten slices that an operator still wants. Choose an age that leaves time to find
// out.
func (s *Staging) Orphans(ctx context.Context, oldest string, age time.Duration) (found []Leftover, err error) {
	if err := parts.CheckID("object", oldest); err != nil {
		return nil, err
	}
	engine := oldest[:strings.LastIndex(oldest, slicesOfEngine)+1] // with the minus
	if engine == "" || strings.HasSuffix(oldest, slicesOfEngine) {
		return nil, fmt.Errorf("bucket: %q is not the id of a slice: want for example 63c7be43891c-s000000000004", oldest)
	}
	before := time.Now().Add(-age)
	err = s.objects.list(ctx, engine+slicesOfEngine[1:], func(key string, at time.Time) error {
		id, ok := strings.CutSuffix(key, sliceExtension)
		number, _, _ := strings.Cut(id[len(engine):], "-r") // -r precedes the revision of a slice that was uploaded with other rows
		id = engine + number
		ours := ok && len(id) == len(oldest) && strings.LastIndexByte(id, '-') == len(engine)-1 // an engine may be named a-s
		if ours && id < oldest && at.Before(before) {
			found = append(found, Leftover{Key: key, At: at})
		}
		return nil
	})
	return found, s.objects.explain("find", "orphans", err)
}

// RemoveOrphans deletes what [Staging.Orphans] lists, and returns the number.
func (s *Staging) RemoveOrphans(ctx context.Context, oldest string, age time.Duration) (removed int, err error) {
	orphans, err := s.Orphans(ctx, oldest, age)
	if err != nil {
		return 0, err
	}
	keys := make([]string, len(orphans))
	for i, o := range orphans {
		keys[i] = o.Key
	}
	if err := s.objects.delete(ctx, keys); err != nil {
		return 0, s.objects.explain("remove", "orphans", err)
	}
	return len(orphans), nil
}

// Uploads lists the uploads in parts of slices below the prefix that were begun longer ago than age and are not complete. A process that is
// killed while it stores a large slice leaves one. S3 charges for its parts and shows them in no listing of objects. Google and Azure discard such
// parts by themselves after a week, and the call finds nothing there.
func (s *Staging) Uploads(ctx context.Context, age time.Duration) ([]Leftover, error) {
	return s.objects.uploads(ctx, age, isSlice)
}

// RemoveUploads aborts what [Staging.Uploads] lists, and returns the number. A put that is still in progress fails and is repeated. A lifecycle
// rule of the bucket (AbortIncompleteMultipartUpload) does the same without this call.
func (s *Staging) RemoveUploads(ctx context.Context, age time.Duration) (removed int, err error) {
	return s.objects.removeUploads(ctx, age, isSlice)
}

func isSlice(key string) bool {
	id, ok := strings.CutSuffix(key, sliceExtension)
	return ok && parts.CheckID("object", id) == nil
}

// Uploads lists the uploads in parts of large parts of tables, as [Staging.Uploads] does. Tables have no orphans, because an object that has the
// name of a part holds rows of its table.
func (t *Tables) Uploads(ctx context.Context, age time.Duration) ([]Leftover, error) {
	return t.objects.uploads(ctx, age, isPart)
}

// RemoveUploads aborts what [Tables.Uploads] lists, as [Staging.RemoveUploads] does.
func (t *Tables) RemoveUploads(ctx context.Context, age time.Duration) (removed int, err error) {
	return t.objects.removeUploads(ctx, age, isPart)
}

func isPart(key string) bool {
	at := strings.LastIndexByte(key, '/')
	_, _, ok := cutPartName(key[at+1:])
	return ok && at > 0
}

// cutPartName returns the file and the number of rows that the name of a part says.
func cutPartName(name string) (file string, rows int64, ok bool) {
	fields := strings.Split(name, ".")
	if len(fields) != 3 || fields[2] != "parquet" {
		return "", 0, false
	}
	rows, err := strconv.ParseInt(fields[1], 10, 64)
	return fields[0], rows, err == nil
}

// Uploads lists the uploads in parts of large objects of archives, as [Staging.Uploads] does. Archives have no orphans, because an object that is named
// like theirs holds records.
func (a *Archive) Uploads(ctx context.Context, age time.Duration) ([]Leftover, error) {
	return a.objects.uploads(ctx, age, isRaw)
}

// RemoveUploads aborts what [Archive.Uploads] lists, as [Staging.RemoveUploads] does.
func (a *Archive) RemoveUploads(ctx context.Context, age time.Duration) (removed int, err error) {
	return a.objects.removeUploads(ctx, age, isRaw)
}

func isRaw(key string) bool {
	name, object, _ := strings.Cut(key, "/")
	_, ok := hourOfObject(object)
	return ok && checkArchive(name) == nil
}

// uploads lists the uploads in parts below the prefix that were begun longer ago than age. Only keys that the driver gives count, because other
// programs may use the bucket.
func (s *store) uploads(ctx context.Context, age time.Duration, ours func(key string) bool) (found []Leftover, err error) {
	if s.client == nil {
		return nil, nil
	}
	before := time.Now().Add(-age)
	pages := s3.NewListMultipartUploadsPaginator(s.client, &s3.ListMultipartUploadsInput{Bucket: &s.bucket, Prefix: &s.prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.explain("find", "open uploads", err)
		}
		for _, u := range page.Uploads {
			if u.Key == nil || u.UploadId == nil || u.Initiated == nil || !u.Initiated.Before(before) {
				continue
			}
			if key, ok := strings.CutPrefix(*u.Key, s.prefix); ok && ours(key) {
				found = append(found, Leftover{Key: key, At: *u.Initiated, upload: *u.UploadId})
			}
		}
	}
	return found, nil
}

func (s *store) removeUploads(ctx context.Context, age time.Duration, ours func(key string) bool) (removed int, err error) {
	found, err := s.uploads(ctx, age, ours)
	for _, u := range found {
		key := s.prefix + u.Key
		_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: &key, UploadId: &u.upload})
		if err != nil && code(err) != "NoSuchUpload" { // it was completed meanwhile
			return removed, s.explain("remove", "open uploads", err)
		}
		removed++
	}
	return removed, err
}
