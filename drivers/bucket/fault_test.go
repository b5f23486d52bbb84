package bucket_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/internal/buckettest"
)

func method(m string) func(r *http.Request) bool {
	return func(r *http.Request) bool { return r.Method == m }
}

func isPart(r *http.Request) bool { return r.URL.Query().Has("partNumber") }

func isComplete(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

// Each of these ends with one object, complete, and with no upload open.
func TestPutSurvives(t *testing.T) {
	small := content("\"a\"\n")
	for name, c := range map[string]struct {
		put   content
		times int
		fault buckettest.Fault
		match func(r *http.Request) bool
	}{
		"throttling":                       {small, 2, buckettest.SlowDown, method(http.MethodPut)},
		"throttling of a part":             {large, 2, buckettest.SlowDown, isPart},
		"a race":                           {small, 2, buckettest.Conflict, method(http.MethodPut)},
		"a race at the last step":          {large, 1, buckettest.Conflict, isComplete},
		"taken by an object that is gone":  {small, 2, buckettest.Taken, method(http.MethodPut)},
		"a lost response":                  {small, 1, buckettest.Lost, method(http.MethodPut)},
		"a lost response of a part":        {large, 1, buckettest.Lost, isPart},
		"a lost response of the last step": {large, 1, buckettest.Lost, isComplete},
		"a torn request":                   {small, 1, buckettest.TornRequest, method(http.MethodPut)},
		"a torn part":                      {large, 1, buckettest.TornRequest, isPart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.staging(t)
			w.proxy.First(c.times, c.fault, c.match)
			check(t, s.Put(t.Context(), object("id"), c.put))
			expectObject(t, s, "id", c.put)
			check(t, s.Put(t.Context(), object("id"), c.put)) // as after a crash
			if got := w.keys(t); len(got) != 1 {
				t.Errorf("objects %q, want one", got)
			}
			w.expectUploads(t, 0)
		})
	}
}

// A put that fails leaves nothing, neither an object nor an open upload.
func TestFailedPutLeavesNothing(t *testing.T) {
	for name, put := range map[string]func(ctx context.Context, w *world, s *bucket.Staging) error{
		"source": func(ctx context.Context, w *world, s *bucket.Staging) error {
			return s.Put(ctx, object("id"), brokenContent{large[:partSize+partSize/2]})
		},
		"part": func(ctx context.Context, w *world, s *bucket.Staging) error {
			w.proxy.First(-1, buckettest.SlowDown, isPart)
			return s.Put(ctx, object("id"), large)
		},
		"context": func(ctx context.Context, w *world, s *bucket.Staging) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			w.proxy.Break(func(r *http.Request) buckettest.Fault {
				if isPart(r) {
					cancel()
				}
				return buckettest.None
			})
			return s.Put(ctx, object("id"), large)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.staging(t)
			var aborts atomic.Int64
			w.proxy.Watch(func(r *http.Request) {
				if r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") {
					aborts.Add(1)
				}
			})
			if err := put(t.Context(), w, s); err == nil || driver.IsPermanent(err) {
				t.Errorf("Put = %v, want an error that a retry fixes", err)
			}
			w.proxy.Break(nil)
			if got := w.keys(t); len(got) != 0 {
				t.Errorf("objects %q, want none", got)
			}
			if aborts.Load() == 0 {
				t.Error("the upload was not aborted")
			}
			// A part may arrive while its upload is aborted. S3 then may show the upload again, as its documentation says, and RemoveUploads aborts it.
			_, err := s.RemoveUploads(t.Context(), -time.Hour)
			check(t, err)
			w.expectUploads(t, 0)
		})
	}
}

// brokenContent breaks off after its bytes.
type brokenContent struct{ content }

func (c brokenContent) Open() (io.ReadCloser, error) {
	rc, _ := c.content.Open()
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(rc, brokenReader{}), rc}, nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("injected") }

// A connection that breaks while an object is read gives an error, and never looks like the end of the object.
func TestTornAnswer(t *testing.T) {
	w := newWorld(t)
	s := w.staging(t)
	check(t, s.Put(t.Context(), object("id"), large))
	w.proxy.First(1, buckettest.TornAnswer, method(http.MethodGet))
	rc, err := s.Open(t.Context(), object("id"))
	if err == nil {
		_, err = io.Copy(io.Discard, rc)
		rc.Close()
	}
	if err == nil {
		t.Error("reading half an object gives no error")
	}
	expectObject(t, s, "id", large)
}

func TestErrors(t *testing.T) {
	w := newWorld(t)
	s := w.staging(t)
	absent := open(t, buckettest.S3URL(w.server, "no-such-bucket"), bucket.Options{})
	check(t, s.Put(t.Context(), object("id"), content("\"a\"\n")))
	reading := func(s *bucket.Staging) func() error {
		return func() error {
			rc, err := s.Open(t.Context(), object("id"))
			if err == nil {
				rc.Close()
			}
			return err
		}
	}
	putting := func(s *bucket.Staging) func() error {
		return func() error { return s.Put(t.Context(), object("other"), content("\"a\"\n")) }
	}
	deleting := func(s *bucket.Staging) func() error {
		return func() error { return s.Delete(t.Context(), object("id")) }
	}
	for _, c := range []struct {
		name      string
		fault     buckettest.Fault
		call      func() error
		permanent bool
	}{
		{"put without the right", buckettest.Denied, putting(s), true},
		{"open without the right", buckettest.Denied, reading(s), true},
		{"delete without the right", buckettest.Denied, deleting(s), true},
		{"put with an expired token", buckettest.Expired, putting(s), false},
		{"put while throttled", buckettest.SlowDown, putting(s), false},
		{"open while throttled", buckettest.SlowDown, reading(s), false},
		{"put into no bucket", buckettest.None, putting(absent), true},
		{"open in no bucket", buckettest.None, reading(absent), true},
		{"delete in no bucket", buckettest.None, deleting(absent), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.proxy.Break(func(*http.Request) buckettest.Fault { return c.fault })
			err := c.call()
			switch {
			case err == nil, driver.IsPermanent(err) != c.permanent:
				t.Errorf("got %v; permanent: %v, want %v", err, driver.IsPermanent(err), c.permanent)
			case errors.Is(err, fs.ErrNotExist):
				t.Errorf("%v matches fs.ErrNotExist, but the object may be there", err)
			case !strings.Contains(err.Error(), "s3://"), strings.Contains(err.Error(), buckettest.SecretKey):
				t.Errorf("got %v: want the bucket and no secret", err)
			}
		})
	}
}

// An outage of a server, or of its name, is not an absent object.
func TestUnreachable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, url := range []string{
		buckettest.S3URL("127.0.0.1:1", "bucket"),
		"azblob://container?protocol=http&localemu=true&domain=127.0.0.1:1",
		"azblob://container?domain=name.invalid",
	} {
		s := open(t, url, bucket.Options{})
		ctx, cancel := context.WithTimeout(ctx, time.Second) // Azure's SDK tries for minutes
		_, err := s.Open(ctx, object("id"))
		cancel()
		if err == nil || errors.Is(err, fs.ErrNotExist) || driver.IsPermanent(err) {
			t.Errorf("%s: got %v, want an error that a retry fixes", url, err)
		}
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"file:///var/staging":         "buffer/dir",
		"/var/staging":                "buffer/dir",
		"s3://key:secret@bucket":      "credentials",
		"s3://bucket?prefix=a":        "path of the URL",
		"s3://bucket?colour=blue":     "colour",
		"s3://bucket?use_path_style=": "",
		"nosuchscheme://bucket":       "nosuchscheme",
		"nosuchscheme://b?sas=secret": "nosuchscheme://b",
		"s3://%zz?sig=secret":         "cannot be read",
		"s3://bucket?sig=%secret":     "cannot be read",
		"s3:///prefix":                "names no bucket",
	} {
		if err := bucket.ValidateURL(t.Context(), url); (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("ValidateURL(%q) = %v, want an error with %q and no secret", url, err, want)
		}
		s, err := bucket.Open(t.Context(), url, bucket.Options{})
		switch {
		case want == "":
			check(t, err)
			check(t, s.Close())
		case err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret"):
			t.Errorf("Open(%q) = %v, want an error with %q and no secret", url, err, want)
		}
	}
	if _, err := bucket.Open(t.Context(), "mem://", bucket.Options{PartSize: 1}); err == nil {
		t.Error("parts of one byte are accepted")
	}
}

// ValidateURL needs no credentials, and knows the parameters that Google and Azure take, and no others.
func TestParametersOfURLs(t *testing.T) {
	with := []string{
		"gs://bucket/x?access_id=-&private_key_path=&universe_domain=&anonymous=true&grpc=false&zonal=false",
		"azblob://container/x?domain=d&protocol=http&storage_account=a&cdn=false&localemu=true",
	}
	t.Run("no credentials", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_ACCOUNT", "")
		for _, url := range append([]string{"gs://bucket", "azblob://container"}, with...) {
			check(t, bucket.ValidateURL(t.Context(), url))
		}
	})
	// These have credentials. The library reads Azure credentials once, at its first use in a process.
	for _, url := range with {
		s, err := bucket.Open(t.Context(), url, bucket.Options{})
		check(t, err)
		check(t, s.Close())
	}
	for url, want := range map[string]string{
		"gs://b?region=secret": `"region"`, "gs://b?grpc=secret": "grpc must be true or false",
		"azblob://c?sig=secret": `"sig"`, "azblob://c?cdn=secret": "cdn must be true or false",
	} {
		if err := bucket.ValidateURL(t.Context(), url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("ValidateURL(%q) = %v, want %q", url, err, want)
		}
	}
}

// A large slice takes a bounded amount of memory.
func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t)
	s := open(t, buckettest.S3URL(w.server, w.name), bucket.Options{PartSize: partSize})
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	src := &measured{size: 12 * partSize}
	check(t, s.Put(t.Context(), object("id"), src))
	if used, limit := src.peak-min(src.peak, before.HeapAlloc), uint64(6*partSize); used > limit {
		t.Errorf("%d bytes of memory are in use while %d are put, want at most %d", used, src.size, limit)
	}
}

// measured is zeros that note how much memory is in use while they are read.
type measured struct {
	content
	size int64
	read int64
	peak uint64
}

func (m *measured) Open() (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(m, m.size)), nil
}

func (m *measured) Read(p []byte) (int, error) {
	if m.read/(1<<20) != (m.read+int64(len(p)))/(1<<20) {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		m.peak = max(m.peak, now.HeapAlloc)
	}
	m.read += int64(len(p))
	return len(p), nil
}
