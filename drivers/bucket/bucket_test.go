package bucket_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/internal/buckettest"
)

var (
	startS3  = sync.OnceValues(buckettest.StartS3) // one for all tests
	started  atomic.Pointer[buckettest.Server]
	nextName atomic.Int64
)

func TestMain(m *testing.M) {
	buckettest.SetEnv()
	log.SetOutput(io.Discard) // the SDK's, about keys that are taken
	code := m.Run()
	if s := started.Load(); s != nil {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// world is an empty bucket of S3, with a proxy before its server.
type world struct {
	name   string
	server string // its address
	folder string // where the server keeps the bucket
	proxy  *buckettest.Proxy
	sdk    *s3.Client // not through the proxy
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := startS3()
	check(t, err)
	started.Store(server)
	name := fmt.Sprintf("bucket-%d", nextName.Add(1))
	check(t, server.CreateBucket(name))
	return &world{
		name: name, server: server.Address, folder: server.BucketFolder(name), proxy: buckettest.NewProxy(t, server.Address),
		sdk: s3.New(s3.Options{
			BaseEndpoint: aws.String("http://" + server.Address), Region: "us-east-1", UsePathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider(buckettest.AccessKey, buckettest.SecretKey, ""),
		}),
	}
}

// staging goes through the proxy.
func (w *world) staging(t *testing.T) *bucket.Staging {
	t.Helper()
	return open(t, buckettest.S3URL(w.proxy.Address, w.name), bucket.Options{PartSize: partSize})
}

const partSize = 5 << 20 // the least, so that tests move few bytes

func open(t *testing.T, url string, o bucket.Options) *bucket.Staging {
	t.Helper()
	s, err := bucket.Open(t.Context(), url, o)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// file is where the server keeps an object.
func (w *world) file(key string) string { return filepath.Join(w.folder, key) }

// keys lists the objects of the bucket.
func (w *world) keys(t *testing.T) (keys []string) {
	t.Helper()
	pages := s3.NewListObjectsV2Paginator(w.sdk, &s3.ListObjectsV2Input{Bucket: &w.name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		check(t, err)
		for _, o := range page.Contents {
			keys = append(keys, *o.Key)
		}
	}
	return keys
}

// expectUploads counts the uploads in parts that are open.
func (w *world) expectUploads(t *testing.T, want int) {
	t.Helper()
	if got := w.uploads(t); got != want {
		t.Errorf("%d uploads are open, want %d", got, want)
	}
}

func (w *world) uploads(t *testing.T) int {
	t.Helper()
	got, err := w.sdk.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &w.name})
	check(t, err)
	return len(got.Uploads)
}

func (w *world) createUpload(t *testing.T, key string) {
	t.Helper()
	_, err := w.sdk.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &w.name, Key: &key})
	check(t, err)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func object(id string) driver.Object { return driver.Object{ID: id, FileID: "file", Rows: 1} }

// content is bytes, for driver.Content.
type content []byte

func (c content) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c)), nil }

func (c content) WriteTo(w io.Writer) (int64, error) { return bytes.NewReader(c).WriteTo(w) }

// large is content of more than two parts.
var large = content(strings.Repeat("\"a row of a large slice\"\n", (2*partSize+1000)/25))

func expectObject(t *testing.T, s driver.Staging, id string, want content) {
	t.Helper()
	rc, err := s.Open(t.Context(), object(id))
	check(t, err)
	defer rc.Close()
	got, err := io.ReadAll(rc)
	check(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that differ from the %d that were put", id, len(got), len(want))
	}
}

func TestStagingS3(t *testing.T) {
	w := newWorld(t)
	prefix := 0
	buffertest.Staging(t, func(t *testing.T) driver.Staging {
		prefix++
		url := strings.Replace(buckettest.S3URL(w.server, w.name), "?", fmt.Sprintf("/deep/%d?", prefix), 1)
		return open(t, url, bucket.Options{PartSize: partSize})
	})
	w.expectUploads(t, 0)
}

func TestStagingMemory(t *testing.T) {
	buffertest.Staging(t, func(t *testing.T) driver.Staging { return open(t, "mem://", bucket.Options{}) })
}

func TestStagingGCS(t *testing.T) {
	server, err := buckettest.StartGCS("gcs-bucket")
	check(t, err)
	t.Cleanup(func() { check(t, server.Close()) })
	t.Setenv("STORAGE_EMULATOR_HOST", server.Address)
	prefix := 0
	buffertest.Staging(t, func(t *testing.T) driver.Staging {
		prefix++
		return open(t, fmt.Sprintf("gs://gcs-bucket/%d", prefix), bucket.Options{})
	})
}

func TestStagingAzure(t *testing.T) {
	address := buckettest.Azurite(t)
	createContainer(t, address, "container")
	prefix := 0
	buffertest.Staging(t, func(t *testing.T) driver.Staging {
		prefix++
		return open(t, fmt.Sprintf("azblob://container/%d?protocol=http&localemu=true&domain=%s", prefix, address), bucket.Options{})
	})
}

// createContainer makes a container of Azurite.
func createContainer(t *testing.T, address, name string) {
	t.Helper()
	account := os.Getenv("AZURE_STORAGE_ACCOUNT")
	key, err := azblob.NewSharedKeyCredential(account, os.Getenv("AZURE_STORAGE_KEY"))
	check(t, err)
	client, err := azblob.NewClientWithSharedKeyCredential("http://"+address+"/"+account, key, nil)
	check(t, err)
	_, err = client.CreateContainer(t.Context(), name, nil)
	check(t, err)
}
