package s3gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
	"github.com/forebay/forebay/storageapi/platform/s3gateway"
)

const token = "master-token-of-the-tests"

// world is a server whose files are served with S3's protocol, and our client of it.
type world struct {
	*storageapi.Client
	t      *testing.T
	http   *httptest.Server
	server *platform.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := platform.Open(t.TempDir(), platform.Options{Token: token, S3: &platform.S3Options{Region: "eu-central-1"}})
	check(t, err)
	gateway, err := s3gateway.Open(server.Objects())
	check(t, err)
	mux := http.NewServeMux()
	mux.Handle("/"+platform.ObjectBucket, gateway)
	mux.Handle("/"+platform.ObjectBucket+"/", gateway)
	mux.Handle("/", server)
	w := &world{t: t, http: httptest.NewServer(mux), server: server}
	t.Cleanup(func() {
		w.http.Close()
		if err := errors.Join(gateway.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	w.Client, err = storageapi.New(storageapi.Options{URL: w.http.URL, Token: token, S3Endpoint: w.http.URL, HTTP: w.http.Client()})
	check(t, err)
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sdk is the SDK of the inventors of the protocol, with credentials for one file.
func (w *world) sdk(f *storageapi.File, c storageapi.S3Credentials) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(w.http.URL), Region: f.Region, UsePathStyle: true, HTTPClient: w.http.Client(), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(c.AccessKeyID, string(c.SecretAccessKey), string(c.SessionToken)),
	})
}

// body is the body of a request of the SDK. It is no [io.WriterTo], because the SDK closes a body once the response begins, and its WriteTo then
// returns io.EOF as an error. If the transport has not yet looked for the end of the body, it closes the connection, and the error response is lost.
func body(text string) io.ReadSeeker {
	return struct{ io.ReadSeeker }{strings.NewReader(text)}
}

func (w *world) prepare(in storageapi.FilePrepare) *storageapi.File {
	w.t.Helper()
	in.Name = "f"
	f, err := w.PrepareFile(w.t.Context(), in)
	check(w.t, err)
	if f.Provider != storageapi.ProviderAWS || f.S3Upload == nil || f.AzureUpload != nil || f.Region != "eu-central-1" {
		w.t.Fatalf("file %+v", f)
	}
	return f
}

// readable returns a file with credentials for reading.
func (w *world) readable(id storageapi.IntID) *storageapi.File {
	w.t.Helper()
	f, err := w.FileWithCredentials(w.t.Context(), id)
	check(w.t, err)
	return f
}

// Our own client moves files and sliced files into a table, as the drivers do.
func TestOwnClient(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.CreateBucket(ctx, storageapi.BucketCreate{Stage: "in", Name: "b"})
	check(t, err)
	_, err = w.CreateTable(ctx, "in.c-b", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("a")})
	check(t, err)
	whole, err := w.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte("a\nwhole\n")))
	check(t, err)
	_, err = w.ImportFile(ctx, "in.c-b.t", storageapi.Import{FileID: whole.ID, Incremental: true})
	check(t, err)
	sliced, err := w.UploadSliced(ctx, storageapi.FilePrepare{Name: "f"})
	check(t, err)
	check(t, sliced.Put(ctx, "one", storageapi.BytesSource([]byte("one\n"))))
	check(t, sliced.Put(ctx, "two/ü", storageapi.BytesSource([]byte("two\n"))))
	check(t, sliced.Commit(ctx, "one", "two/ü"))
	_, err = w.ImportFile(ctx, "in.c-b.t", storageapi.Import{FileID: sliced.ID(), Columns: []string{"a"}, WithoutHeaders: true, Incremental: true})
	check(t, err)
	rows, err := w.PreviewJSON(ctx, "in.c-b.t", storageapi.RowQuery{})
	check(t, err)
	if len(rows.Rows) != 3 {
		t.Errorf("rows %+v", rows.Rows)
	}
	stored, err := w.Download(ctx, sliced.ID())
	check(t, err)
	names, err := stored.Slices(ctx)
	check(t, err)
	if fmt.Sprint(names) != "[one two/ü]" {
		t.Errorf("slices %q", names)
	}
}

// An export is a sliced file like any other. Its manifest names the slices as the credentials name the bucket.
func TestExport(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.CreateBucket(ctx, storageapi.BucketCreate{Stage: "in", Name: "b"})
	check(t, err)
	_, err = w.CreateTable(ctx, "in.c-b", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("a")})
	check(t, err)
	in, err := w.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte("a\nrow\n")))
	check(t, err)
	_, err = w.ImportFile(ctx, "in.c-b.t", storageapi.Import{FileID: in.ID})
	check(t, err)
	id, err := w.ExportTable(ctx, "in.c-b.t", storageapi.Export{})
	check(t, err)

	stored, err := w.Download(ctx, id)
	check(t, err)
	rc, err := stored.OpenSlices(ctx)
	check(t, err)
	rows, err := io.ReadAll(rc)
	check(t, errors.Join(err, rc.Close()))
	if string(rows) != "\"row\"\n" {
		t.Errorf("our client reads %q", rows)
	}
	r := w.readable(id)
	key := r.S3Path.Key + storageapi.ManifestName
	out, err := w.sdk(r, *r.S3Credentials).GetObject(ctx, &s3.GetObjectInput{Bucket: &r.S3Path.Bucket, Key: &key})
	check(t, err)
	manifest, err := io.ReadAll(out.Body)
	check(t, errors.Join(err, out.Body.Close()))
	if !strings.Contains(string(manifest), `"url":"s3://`+r.S3Path.Bucket+"/"+r.S3Path.Key) {
		t.Errorf("manifest %s", manifest)
	}
}

// The SDK puts, reads, reads in part and deletes, with properties and checksums.
func TestSDK(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	f := w.prepare(storageapi.FilePrepare{})
	up := w.sdk(f, f.S3Upload.Credentials)
	_, err := up.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &f.S3Upload.Bucket, Key: &f.S3Upload.Key, Body: body("0123456789"), ContentType: aws.String("text/csv"),
		Metadata: map[string]string{"my": "own"}, ServerSideEncryption: "AES256", ACL: "private",
	})
	check(t, err)

	r := w.readable(f.ID)
	down := w.sdk(r, *r.S3Credentials)
	head, err := down.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &r.S3Path.Bucket, Key: &r.S3Path.Key})
	check(t, err)
	if *head.ContentLength != 10 || *head.ContentType != "text/csv" || head.Metadata["my"] != "own" || time.Since(*head.LastModified) > time.Hour {
		t.Errorf("head %+v", head)
	}
	for byteRange, want := range map[string]string{"": "0123456789", "bytes=2-4": "234", "bytes=-1": "9"} {
		in := &s3.GetObjectInput{Bucket: &r.S3Path.Bucket, Key: &r.S3Path.Key}
		if byteRange != "" {
			in.Range = &byteRange
		}
		out, err := down.GetObject(ctx, in)
		check(t, err)
		got, err := io.ReadAll(out.Body)
		check(t, errors.Join(err, out.Body.Close()))
		if string(got) != want {
			t.Errorf("range %q: %q, want %q", byteRange, got, want)
		}
	}
	_, err = up.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &f.S3Upload.Bucket, Key: &f.S3Upload.Key})
	check(t, err)
	_, err = down.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.S3Path.Bucket, Key: &r.S3Path.Key})
	wantCode(t, err, "NoSuchKey")
}

// A large object is uploaded in parts, side by side, and arrives as it was.
func TestMultipart(t *testing.T) {
	w := newWorld(t)
	f := w.prepare(storageapi.FilePrepare{})
	data := make([]byte, 17<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	client := w.sdk(f, f.S3Upload.Credentials)
	manager := transfermanager.New(client, func(o *transfermanager.Options) { o.PartSizeBytes = 5 << 20 })
	_, err := manager.UploadObject(t.Context(), &transfermanager.UploadObjectInput{
		Bucket: &f.S3Upload.Bucket, Key: &f.S3Upload.Key, Body: body(string(data)), ContentType: aws.String("text/csv"),
	})
	check(t, err)
	stored, err := w.Download(t.Context(), f.ID)
	check(t, err)
	rc, err := stored.Open(t.Context())
	check(t, err)
	got, err := io.ReadAll(rc)
	check(t, errors.Join(err, rc.Close()))
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes: got %d others back, want the same", len(data), len(got))
	}
}

func TestMultipartWithAWrongPart(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	f := w.prepare(storageapi.FilePrepare{})
	client := w.sdk(f, f.S3Upload.Credentials)
	bucket, key := &f.S3Upload.Bucket, &f.S3Upload.Key
	created, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key})
	check(t, err)
	part, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: created.UploadId, PartNumber: aws.Int32(1), Body: body("x")})
	check(t, err)
	complete := func(number int32, etag, upload string) error {
		_, err := client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: bucket, Key: key, UploadId: &upload, MultipartUpload: completed(number, etag),
		})
		return err
	}
	wantCode(t, complete(2, *part.ETag, *created.UploadId), "InvalidPart")
	wantCode(t, complete(1, `"00000000000000000000000000000000"`, *created.UploadId), "InvalidPart")
	wantCode(t, complete(1, *part.ETag, "unknown"), "NoSuchUpload")
	check(t, complete(1, *part.ETag, *created.UploadId))
}

// An access key reaches its own file only, as it was handed out, while it holds. Nothing else is served.
func TestRights(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	mine, other := w.prepare(storageapi.FilePrepare{}), w.prepare(storageapi.FilePrepare{})
	put := func(c storageapi.S3Credentials, key string) error {
		_, err := w.sdk(mine, c).PutObject(ctx, &s3.PutObjectInput{Bucket: &mine.S3Upload.Bucket, Key: &key, Body: body("x")})
		return err
	}
	check(t, put(mine.S3Upload.Credentials, mine.S3Upload.Key))
	wantCode(t, put(mine.S3Upload.Credentials, other.S3Upload.Key), "AccessDenied")
	wantCode(t, put(*w.readable(mine.ID).S3Credentials, mine.S3Upload.Key), "AccessDenied")

	forged := mine.S3Upload.Credentials
	forged.SecretAccessKey += "x"
	wantCode(t, put(forged, mine.S3Upload.Key), "SignatureDoesNotMatch")
	forged = mine.S3Upload.Credentials
	forged.AccessKeyID = other.S3Upload.Credentials.AccessKeyID
	wantCode(t, put(forged, other.S3Upload.Key), "InvalidToken")
	forged = mine.S3Upload.Credentials
	forged.SessionToken = ""
	wantCode(t, put(forged, mine.S3Upload.Key), "InvalidToken")

	client := w.sdk(mine, mine.S3Upload.Credentials)
	_, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &mine.S3Upload.Bucket})
	wantCode(t, err, "NotImplemented")
	check(t, w.DeleteFile(ctx, mine.ID))
	wantCode(t, put(mine.S3Upload.Credentials, mine.S3Upload.Key), "NoSuchKey")
}

// A body that differs from the signed one leaves the previous object in its place.
func TestTornBody(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	f := w.prepare(storageapi.FilePrepare{})
	client := w.sdk(f, f.S3Upload.Credentials)
	in := &s3.PutObjectInput{Bucket: &f.S3Upload.Bucket, Key: &f.S3Upload.Key, Body: body("whole")}
	_, err := client.PutObject(ctx, in)
	check(t, err)
	in.Body, in.ChecksumSHA256 = body("other"), aws.String("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	_, err = client.PutObject(ctx, in)
	wantCode(t, err, "BadDigest")
	stored, err := w.Download(ctx, f.ID)
	check(t, err)
	rc, err := stored.Open(ctx)
	check(t, err)
	got, err := io.ReadAll(rc)
	check(t, errors.Join(err, rc.Close()))
	if string(got) != "whole" {
		t.Errorf("the object is %q", got)
	}
}

// Gateways of several servers work at once in one process, and know their own keys alone.
func TestGatewaysAtOnce(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w, other := newWorld(t), newWorld(t)
			ctx := t.Context()
			for n := range 20 {
				f := w.prepare(storageapi.FilePrepare{})
				in := &s3.PutObjectInput{Bucket: &f.S3Upload.Bucket, Key: &f.S3Upload.Key, Body: body(fmt.Sprint(i, n))}
				_, err := other.sdk(f, f.S3Upload.Credentials).PutObject(ctx, in)
				wantCode(t, err, "InvalidToken")
				in.Body = body(fmt.Sprint(i, n))
				_, err = w.sdk(f, f.S3Upload.Credentials).PutObject(ctx, in)
				check(t, err)
				stored, err := w.Download(ctx, f.ID)
				check(t, err)
				rc, err := stored.Open(ctx)
				check(t, err)
				got, err := io.ReadAll(rc)
				check(t, errors.Join(err, rc.Close()))
				if string(got) != fmt.Sprint(i, n) {
					t.Errorf("the object is %q", got)
				}
			}
		})
	}
}

// A refused request gets its response after its body arrived, so that the response is not lost with the connection.
func TestRefusedBodyIsRead(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	f := w.prepare(storageapi.FilePrepare{})
	in := &s3.PutObjectInput{Bucket: &f.S3Upload.Bucket, Key: &f.S3Upload.Key, Body: body("whole")}
	slow := &slowClient{handler: other.http.Config.Handler, answered: make(chan struct{})}
	_, err := other.sdk(f, f.S3Upload.Credentials).PutObject(t.Context(), in, func(o *s3.Options) { o.HTTPClient = slow })
	wantCode(t, err, "InvalidToken")
	if slow.late {
		t.Error("answered before the body came")
	}
}

// slowClient sends a body after the response, or after a moment.
type slowClient struct {
	handler  http.Handler
	body     io.Reader
	answered chan struct{}
	late     bool
}

func (c *slowClient) Do(r *http.Request) (*http.Response, error) {
	c.body, r.Body = r.Body, io.NopCloser(c)
	rec := httptest.NewRecorder()
	c.handler.ServeHTTP(&response{rec, c.answered}, r)
	return rec.Result(), nil
}

func (c *slowClient) Read(p []byte) (int, error) {
	if !c.late {
		select {
		case <-c.answered:
			c.late = true
		case <-time.After(200 * time.Millisecond):
		}
	}
	return c.body.Read(p)
}

// response closes its channel with the header.
type response struct {
	*httptest.ResponseRecorder
	answered chan struct{}
}

func (a *response) WriteHeader(code int) {
	close(a.answered)
	a.ResponseRecorder.WriteHeader(code)
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e smithy.APIError
	if !errors.As(err, &e) || e.ErrorCode() != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

func completed(number int32, etag string) *types.CompletedMultipartUpload {
	return &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{PartNumber: &number, ETag: &etag}}}
}
