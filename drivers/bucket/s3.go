package bucket

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	gcaws "gocloud.dev/aws"
	"gocloud.dev/blob/s3blob"

	"github.com/forebay/forebay/driver"
)

// abortWithin bounds the abort of an upload whose context may have ended.
const abortWithin = 5 * time.Second

// openS3 makes the client of S3 itself, because package blob has no options for some settings of uploads.
func (s *store) openS3(ctx context.Context, u *url.URL) error {
	q := u.Query()
	endpoint := q.Get("endpoint")
	pathStyle := endpoint != ""
	if v := q.Get("use_path_style"); v != "" {
		var err error
		if pathStyle, err = strconv.ParseBool(v); err != nil {
			return err
		}
	}
	var options s3blob.Options
	options.KMSEncryptionID = q.Get("kmskeyid")
	for _, ours := range []string{"endpoint", "use_path_style", "kmskeyid"} {
		q.Del(ours)
	}
	if endpoint != "" {
		// Many stores refuse the checksums that the SDK adds since 2025.
		for _, mode := range []string{"request_checksum_calculation", "response_checksum_validation"} {
			if !q.Has(mode) {
				q.Set(mode, "when_required")
			}
		}
	}
	config, err := gcaws.V2ConfigFromURLParams(ctx, q)
	if err != nil {
		return err
	}
	if endpoint != "" && config.Region == "" {
		config.Region = "us-east-1" // part of the signature, but other stores ignore it
	}
	name, version, _ := strings.Cut(driver.Product(), "/")
	config.APIOptions = append(config.APIOptions, middleware.AddUserAgentKeyValue(name, version))
	s.client = newClient(config, func(o *s3.Options) {
		o.UsePathStyle = pathStyle
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
	if s.blobs, err = s3blob.OpenBucket(ctx, s.client, s.bucket, &options); err != nil {
		return err
	}
	uploads := transfermanager.New(s.client, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency = s.partSize, s.partSize, uploadParts
		o.FailTimeout = abortWithin
		o.RequestChecksumCalculation = config.RequestChecksumCalculation
	})
	s.upload = func(ctx context.Context, key string, r io.Reader, replace bool) error {
		in := &transfermanager.UploadObjectInput{Bucket: &s.bucket, Key: &key, Body: r, ContentType: aws.String(contentType)}
		if !replace {
			in.IfNoneMatch = aws.String("*")
		}
		if options.KMSEncryptionID != "" {
			in.ServerSideEncryption, in.SSEKMSKeyID = "aws:kms", &options.KMSEncryptionID
		}
		_, err := uploads.UploadObject(ctx, in)
		return err
	}
	return nil
}

// newClient returns a client of S3 that keeps the responses that refuse a request.
func newClient(config aws.Config, set func(*s3.Options)) *s3.Client {
	return s3.NewFromConfig(config, set, func(o *s3.Options) { o.HTTPClient = plainBodies{o.HTTPClient} })
}

// plainBodies is a client of HTTP whose request bodies are no [io.WriterTo].
//
// The SDK closes the body of a request once the response begins, and WriteTo of a closed body returns io.EOF as an error. If the transport has not yet
// looked for the end of the body, it takes the error for a failed request and closes the connection. The code of an error response is then lost, so a
// missing bucket would look like a broken connection.
type plainBodies struct{ s3.HTTPClient }

func (c plainBodies) Do(r *http.Request) (*http.Response, error) {
	if _, ok := r.Body.(io.WriterTo); ok && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}

// deleteS3 removes an object with one request. An absent object is no error.
func (s *store) deleteS3(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return err
}
