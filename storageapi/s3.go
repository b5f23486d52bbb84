package storageapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// s3Store is a store with the protocol of S3. Requests are signed with version 4 of its signatures, without the bytes
// of the body, which TLS protects. One put and one get are all that is needed of S3: that is a page of code, and its
// client library would be the largest dependency of this module.
type s3Store struct {
	endpoint, region, bucket, key string
	credentials                   S3Credentials
	headers                       map[string]string
	now                           func() time.Time
}

func newS3Store(endpoint, region, bucket, key string, credentials S3Credentials, headers map[string]string) (objectStore, error) {
	if endpoint == "" {
		endpoint = "https://s3." + region + ".amazonaws.com"
	}
	return &s3Store{
		endpoint: strings.TrimRight(endpoint, "/"), region: region, bucket: bucket, key: key, credentials: credentials,
		headers: headers, now: time.Now,
	}, nil
}

func (s *s3Store) address(inner string) string { return "s3://" + s.bucket + "/" + s.key + inner }

func (s *s3Store) expires() time.Time { return s.credentials.Expiration.Time }

const unsignedPayload = "UNSIGNED-PAYLOAD"

func (s *s3Store) request(ctx context.Context, method, inner string, body io.Reader, size int64) (*http.Request, error) {
	req, err := newObjectRequest(ctx, method, s.endpoint+"/"+escapeS3(s.bucket)+"/"+escapeS3(s.key+inner), body, size)
	if err != nil {
		return nil, err
	}
	if body != nil {
		for name, value := range s.headers {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
	}
	s.sign(req, unsignedPayload)
	return req, nil
}

// sign adds the headers of the signature. payload is the hash of the body, or unsignedPayload.
func (s *s3Store) sign(req *http.Request, payload string) {
	at := s.now().UTC()
	req.Header.Set("x-amz-date", at.Format("20060102T150405Z"))
	req.Header.Set("x-amz-content-sha256", payload)
	if s.credentials.SessionToken != "" {
		req.Header.Set("x-amz-security-token", string(s.credentials.SessionToken))
	}

	names := []string{"host"}
	values := map[string]string{"host": req.URL.Host}
	for name, list := range req.Header {
		lower := strings.ToLower(name)
		if lower == "range" || lower == "date" || strings.HasPrefix(lower, "x-amz-") {
			names = append(names, lower)
			values[lower] = strings.TrimSpace(strings.Join(list, ","))
		}
	}
	slices.Sort(names)
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", req.Method, req.URL.EscapedPath(), req.URL.RawQuery)
	for _, name := range names {
		fmt.Fprintf(&canonical, "%s:%s\n", name, values[name])
	}
	signed := strings.Join(names, ";")
	fmt.Fprintf(&canonical, "\n%s\n%s", signed, payload)

	scope := at.Format("20060102") + "/" + s.region + "/s3/aws4_request"
	digest := sha256.Sum256([]byte(canonical.String()))
	text := "AWS4-HMAC-SHA256\n" + at.Format("20060102T150405Z") + "\n" + scope + "\n" + hex.EncodeToString(digest[:])
	signing := []byte("AWS4" + string(s.credentials.SecretAccessKey))
	for _, part := range []string{at.Format("20060102"), s.region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, signing)
		mac.Write([]byte(part))
		signing = mac.Sum(nil)
	}
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s",
		s.credentials.AccessKeyID, scope, signed, hex.EncodeToString(signing)))
}

// escapeS3 escapes every byte but the unreserved ones and the slash, as the signature demands.
func escapeS3(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
