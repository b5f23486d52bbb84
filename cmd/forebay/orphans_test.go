package main

import (
	"bytes"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/internal/buckettest"
)

// oneRow is the content of a slice.
type oneRow struct{}

func (oneRow) Open() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("\"a\"\n")), nil }

func (oneRow) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, "\"a\"\n")
	return int64(n), err
}

// withPrefix returns the URL of a prefix of a bucket.
func withPrefix(t *testing.T, address, prefix string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = prefix
	return u.String()
}

// Open uploads of all places, and slices of one engine, are listed and then removed. Slices of other engines stay.
func TestOrphans(t *testing.T) {
	address := bucketURL(t, "orphans")
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + startedS3.Address), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(buckettest.AccessKey, buckettest.SecretKey, ""),
	})
	name := aws.String("orphans")
	for _, key := range []string{"wait/a-s1.slice", "lake/t/f.7.parquet", "raw/web/2026-11-22T03/f.csv.gz", "wait/theirs"} {
		if _, err := client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: name, Key: aws.String(key)}); err != nil {
			t.Fatal(err)
		}
	}
	data, staging := filepath.Join(t.TempDir(), "data"), withPrefix(t, address, "wait")
	if status, out, errs := call(t, "", nil, "demo", "-n", "20", "-dir", data); status != 0 {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	in, err := forebay.Inspect(data, buffer.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	next := in.NextSlice()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	engine, _, _ := strings.Cut(next, "-s")
	s, err := bucket.Open(t.Context(), staging, bucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range []string{engine + "-s000000000000", next, "0123456789ab-s000000000001"} {
		if err := s.Put(t.Context(), driver.Object{ID: id, Rows: 1}, oneRow{}); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(t.TempDir(), "forebay.yaml")
	write(t, config, "staging: "+staging+"\ntarget: parquet:"+withPrefix(t, address, "lake")+"\narchive: "+withPrefix(t, address, "raw")+"\n")
	orphans := func(args ...string) string {
		t.Helper()
		status, out, errs := call(t, "", nil, append([]string{"orphans", "-config", config}, args...)...)
		if status != 0 || errs != "" || strings.Contains(out, buckettest.SecretKey) {
			t.Fatalf("status %d\n%s%s", status, out, errs)
		}
		return out
	}
	if out := orphans(data); out != "found: nothing\n" {
		t.Errorf("nothing is a day old:\n%s", out)
	}
	old := []string{"-uploads-older-than", "-1h", "-slices-older-than", "-1h"}
	listed := orphans(append(old, data)...)
	for _, want := range []string{"a-s1.slice", "t/f.7.parquet", "web/2026-11-22T03/f.csv.gz", engine + "-s000000000000.slice", "found: 3 open uploads, 1 slice; -remove removes them"} {
		if !strings.Contains(listed, want) {
			t.Errorf("no %s in\n%s", want, listed)
		}
	}
	if out := orphans(append(old, "-remove")...); !strings.HasSuffix(out, "removed: 3 open uploads, 0 slices\n") { // no data directory, no slices
		t.Errorf("got %s, want strings.HasSuffix(out, \"removed: 3 open uploads, 0 slices\\n\")", out)
	}
	if out := orphans(append(old, "-remove", data)...); !strings.HasSuffix(out, "removed: 0 open uploads, 1 slice\n") {
		t.Errorf("got %s, want strings.HasSuffix(out, \"removed: 0 open uploads, 1 slice\\n\")", out)
	}
	if out := orphans(append(old, data)...); out != "found: nothing\n" {
		t.Errorf("got %s, want \"found: nothing\\n\"", out)
	}
	uploads, err := client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: name})
	if err != nil || len(uploads.Uploads) != 1 {
		t.Errorf("%d uploads are left, want theirs: %v", len(uploads.Uploads), err)
	}
	objects, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: name, Prefix: aws.String("wait/")})
	if err != nil || len(objects.Contents) != 2 {
		t.Errorf("%d slices are left, want the next one and the other engine's: %v", len(objects.Contents), err)
	}
}

func TestOrphansRefuses(t *testing.T) {
	address := bucketURL(t, "refused")
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"nothing is in a bucket":            {"-target", "sqlite:x.db", "-staging", "dir:x"},
		"in the bucket of -staging":         {"-target", "parquet:" + address, empty},
		"name one data directory":           {"-staging", address, "a", "b"},
		"holds no local level":              {"-staging", address, empty},
		"-staging cannot be used: bucket: ": {"-staging", "s3://key:secret@bucket"},
	} {
		if status, out, errs := call(t, "", nil, append([]string{"orphans"}, args...)...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("got %q: status %d, want %q\n%s%s", args, status, want, out, errs)
		}
	}
	// A server that runs keeps its directory, but its checkpoint can be read.
	data := t.TempDir()
	s := serve(t, secrets(), "-dir", data, "-staging", address)
	status, _, errs := call(t, "", nil, "orphans", "-staging", address, data)
	if status != failed || !strings.Contains(errs, "name a checkpoint of it") {
		t.Errorf("status %d\n%s", status, errs)
	}
	s.stop()
	var out bytes.Buffer
	p := process{stdin: &out, stdout: &out, stderr: &out, getenv: func(string) (string, bool) { return "", false }}
	if status := p.run(t.Context(), []string{"orphans", "-staging", address, data}); status != 0 || out.String() != "found: nothing\n" {
		t.Errorf("status %d\n%s", status, &out)
	}
}
