package s3gateway

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// An upload in parts has no record. Its id carries the properties of the object. A part is stored under the upload and its
// number, and an empty mark under the upload, its number and its ETag. Both are put together, so that completing an upload
// with an ETag that no part had finds nothing. An upload that is never completed is deleted with the file.

// maxUploadID bounds the id of an upload, which stands in the address of each request.
const maxUploadID = 2 << 10

func newUploadID(properties map[string]string) (string, error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	data, err := json.Marshal(properties)
	text := hex.EncodeToString(id[:]) + "." + base64.RawURLEncoding.EncodeToString(data)
	if err == nil && len(text) > maxUploadID {
		err = s3err.GetAPIError(s3err.ErrMetadataTooLarge)
	}
	return text, err
}

func parseUploadID(text string) (name string, properties map[string]string, err error) {
	name, encoded, ok := strings.Cut(text, ".")
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || json.Unmarshal(data, &properties) != nil {
		return "", nil, s3err.GetAPIError(s3err.ErrNoSuchUpload)
	}
	return name, properties, nil
}

func partID(upload string, number int32) string { return fmt.Sprintf("%s-%d", upload, number) }

func markID(upload string, number int32, etag string) string {
	return partID(upload, number) + "-" + strings.Trim(etag, `"`)
}

func (b *backend) CreateMultipartUpload(_ context.Context, in s3response.CreateMultipartUploadInput) (out s3response.InitiateMultipartUploadResult, err error) {
	p := properties(in.ContentType, in.ContentEncoding, in.ContentDisposition, in.ContentLanguage, in.CacheControl, in.Metadata)
	out.Bucket, out.Key = aws.ToString(in.Bucket), aws.ToString(in.Key)
	out.UploadId, err = newUploadID(p)
	return out, err
}

func (b *backend) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	upload, _, err := parseUploadID(aws.ToString(in.UploadId))
	if err != nil {
		return nil, err
	}
	verified, err := checksums{
		utils.HashTypeContentMD5: in.ContentMD5, utils.HashTypeMd5: in.ChecksumMD5, utils.HashTypeCRC32: in.ChecksumCRC32,
		utils.HashTypeCRC32C: in.ChecksumCRC32C, utils.HashTypeCRC64NVME: in.ChecksumCRC64NVME, utils.HashTypeSha1: in.ChecksumSHA1,
		utils.HashTypeSha256: in.ChecksumSHA256, utils.HashTypeSha512: in.ChecksumSHA512, utils.HashTypeXXHASH64: in.ChecksumXXHASH64,
		utils.HashTypeXXHASH3: in.ChecksumXXHASH3, utils.HashTypeXXHASH128: in.ChecksumXXHASH128,
	}.verify(in.Body)
	if err != nil {
		return nil, err
	}
	body := newETagReader(verified)
	if err := b.objects.PutPart(ctx, accessKey(ctx), aws.ToString(in.Key), partID(upload, *in.PartNumber), body); err != nil {
		return nil, explain(err)
	}
	etag := body.etag()
	if err := b.objects.PutPart(ctx, accessKey(ctx), aws.ToString(in.Key), markID(upload, *in.PartNumber, etag), strings.NewReader("")); err != nil {
		return nil, explain(err)
	}
	return &s3.UploadPartOutput{ETag: &etag}, nil
}

func (b *backend) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (out s3response.CompleteMultipartUploadResult, version string, err error) {
	upload, properties, err := parseUploadID(aws.ToString(in.UploadId))
	if err != nil {
		return out, "", err
	}
	var ids []string
	last := int32(0)
	for _, part := range in.MultipartUpload.Parts {
		if part.PartNumber == nil || *part.PartNumber <= last {
			return out, "", s3err.GetAPIError(s3err.ErrInvalidPartOrder)
		}
		last = *part.PartNumber
		ids = append(ids, partID(upload, last), markID(upload, last, aws.ToString(part.ETag)))
	}
	err = b.objects.PutParts(accessKey(ctx), aws.ToString(in.Key), properties, ids)
	if errors.Is(err, fs.ErrNotExist) {
		return out, "", s3err.GetAPIError(s3err.ErrInvalidPart)
	}
	if err != nil {
		return out, "", explain(err)
	}
	_, etag, err := b.stat(ctx, aws.ToString(in.Key))
	out.Bucket, out.Key, out.ETag = in.Bucket, in.Key, &etag
	return out, "", err
}

// AbortMultipartUpload has nothing to forget, because the parts go with the file.
func (b *backend) AbortMultipartUpload(_ context.Context, in *s3.AbortMultipartUploadInput) error {
	_, _, err := parseUploadID(aws.ToString(in.UploadId))
	return err
}
