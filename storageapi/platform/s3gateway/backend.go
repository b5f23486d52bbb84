package s3gateway

import (
	"context"
	"crypto/md5" // what S3 calls an ETag
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	vgw "github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/forebay/forebay/storageapi/platform"
)

// backend is the objects of a server as versitygw wants them. What is not here is refused as not implemented.
type backend struct {
	vgw.BackendUnsupported
	objects *platform.Objects
}

func (*backend) String() string { return "forebay" }

// accessKey is the key of the request, whose signature versitygw has checked.
func accessKey(ctx context.Context) string {
	account, _ := ctx.Value("account").(auth.Account)
	return account.Access
}

// explain turns errors of the server into errors of S3. The error that ended a body is wrapped in others.
func explain(err error) error {
	var known s3err.S3Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, platform.ErrObjectDenied):
		return s3err.GetAPIError(s3err.ErrAccessDenied)
	case errors.Is(err, fs.ErrNotExist):
		return s3err.GetAPIError(s3err.ErrNoSuchKey)
	}
	return err
}

func (*backend) HeadBucket(_ context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	return &s3.HeadBucketOutput{}, checkBucket(aws.ToString(in.Bucket))
}

// GetBucketAcl leaves the bucket to the root account, which no client has.
func (*backend) GetBucketAcl(_ context.Context, in *s3.GetBucketAclInput) ([]byte, error) {
	return nil, checkBucket(aws.ToString(in.Bucket))
}

// The bucket has no policy and locks no object.

func (*backend) GetBucketPolicy(context.Context, string) ([]byte, error) {
	return nil, s3err.GetAPIError(s3err.ErrNoSuchBucketPolicy)
}

func (*backend) GetObjectLockConfiguration(context.Context, string) ([]byte, error) {
	return nil, s3err.GetAPIError(s3err.ErrObjectLockConfigurationNotFound)
}

func checkBucket(name string) error {
	if name != platform.ObjectBucket {
		return s3err.GetAPIError(s3err.ErrNoSuchBucket)
	}
	return nil
}

// metaPrefix begins the names of header fields for metadata of the writer's own.
const metaPrefix = "x-ms-meta-"

// properties gathers the properties that a writer sets on an object, under the names of the server.
func properties(contentType, encoding, disposition, language, cache *string, metadata map[string]string) map[string]string {
	p := make(map[string]string)
	for name, value := range map[string]*string{
		"Content-Type": contentType, "Content-Encoding": encoding, "Content-Disposition": disposition,
		"Content-Language": language, "Cache-Control": cache,
	} {
		if aws.ToString(value) != "" {
			p[name] = *value
		}
	}
	for name, value := range metadata {
		p[metaPrefix+strings.ToLower(name)] = value
	}
	return p
}

// property returns a property, or nil when there is none.
func property(p map[string]string, name string) *string {
	if value, ok := p[name]; ok {
		return &value
	}
	return nil
}

func metadata(p map[string]string) map[string]string {
	m := make(map[string]string)
	for name, value := range p {
		if name, ok := strings.CutPrefix(name, metaPrefix); ok {
			m[name] = value
		}
	}
	return m
}

type etagReader struct {
	io.Reader
	sum hash.Hash
}

func newETagReader(r io.Reader) etagReader {
	sum := md5.New()
	return etagReader{io.TeeReader(r, sum), sum}
}

func (r etagReader) etag() string { return `"` + hex.EncodeToString(r.sum.Sum(nil)) + `"` }

func (b *backend) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	var out s3response.PutObjectOutput
	if aws.ToString(in.IfMatch) != "" || aws.ToString(in.IfNoneMatch) != "" {
		return out, s3err.GetAPIError(s3err.ErrNotImplemented)
	}
	p := properties(in.ContentType, in.ContentEncoding, in.ContentDisposition, in.ContentLanguage, in.CacheControl, in.Metadata)
	verified, err := checksums{
		utils.HashTypeContentMD5: in.ContentMD5, utils.HashTypeMd5: in.ChecksumMD5, utils.HashTypeCRC32: in.ChecksumCRC32,
		utils.HashTypeCRC32C: in.ChecksumCRC32C, utils.HashTypeCRC64NVME: in.ChecksumCRC64NVME, utils.HashTypeSha1: in.ChecksumSHA1,
		utils.HashTypeSha256: in.ChecksumSHA256, utils.HashTypeSha512: in.ChecksumSHA512, utils.HashTypeXXHASH64: in.ChecksumXXHASH64,
		utils.HashTypeXXHASH3: in.ChecksumXXHASH3, utils.HashTypeXXHASH128: in.ChecksumXXHASH128,
	}.verify(in.Body)
	if err != nil {
		return out, err
	}
	body := newETagReader(verified)
	if err := b.objects.Put(ctx, accessKey(ctx), aws.ToString(in.Key), p, body); err != nil {
		return out, explain(err)
	}
	out.ETag = body.etag()
	return out, nil
}

// open opens an object and returns its metadata too.
func (b *backend) open(ctx context.Context, key string) (io.ReadSeekCloser, platform.ObjectInfo, string, error) {
	f, info, err := b.objects.Open(accessKey(ctx), key)
	if err != nil {
		return nil, info, "", explain(err)
	}
	// The ETag of a stored object is its size and time, as the bytes are not read for it. It changes with each put.
	return f, info, fmt.Sprintf(`"%x-%x"`, info.Written.UnixNano(), info.Size), nil
}

func (b *backend) stat(ctx context.Context, key string) (info platform.ObjectInfo, etag string, err error) {
	f, info, etag, err := b.open(ctx, key)
	if err == nil {
		err = f.Close()
	}
	return info, etag, err
}

func (b *backend) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	info, etag, err := b.stat(ctx, aws.ToString(in.Key))
	if err != nil {
		return nil, err
	}
	p := info.Properties
	return &s3.HeadObjectOutput{
		ContentLength: &info.Size, LastModified: &info.Written, ETag: &etag, ContentType: contentType(p),
		ContentEncoding: property(p, "Content-Encoding"), ContentDisposition: property(p, "Content-Disposition"),
		ContentLanguage: property(p, "Content-Language"), CacheControl: property(p, "Cache-Control"), Metadata: metadata(p),
		StorageClass: types.StorageClassStandard,
	}, nil
}

func contentType(p map[string]string) *string {
	if kind := property(p, "Content-Type"); kind != nil {
		return kind
	}
	return aws.String("binary/octet-stream")
}

// section is a part of an object that closes the whole.
type section struct {
	io.Reader
	io.Closer
}

func (b *backend) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	f, info, etag, err := b.open(ctx, aws.ToString(in.Key))
	if err != nil {
		return nil, err
	}
	start, length, partial, err := vgw.ParseObjectRange(info.Size, aws.ToString(in.Range))
	if err == nil {
		_, err = f.Seek(start, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := info.Properties
	out := &s3.GetObjectOutput{
		Body: section{io.LimitReader(f, length), f}, ContentLength: &length, LastModified: &info.Written, ETag: &etag,
		ContentType: contentType(p), ContentEncoding: property(p, "Content-Encoding"), Metadata: metadata(p),
		ContentDisposition: property(p, "Content-Disposition"), ContentLanguage: property(p, "Content-Language"),
		CacheControl: property(p, "Cache-Control"), StorageClass: types.StorageClassStandard,
	}
	if partial {
		out.ContentRange = aws.String(fmt.Sprintf("bytes %d-%d/%d", start, start+length-1, info.Size))
	}
	return out, nil
}

func (b *backend) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	return &s3.DeleteObjectOutput{}, explain(b.objects.Remove(accessKey(ctx), aws.ToString(in.Key)))
}
