package storageapi

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// newS3Store returns a store with the protocol of S3. headers are sent with uploads, unless they are empty.
func newS3Store(endpoint, region, bucket, key string, credentials S3Credentials, headers map[string]string) *objectStore {
	signer := &s3Signer{region: region, credentials: credentials, now: time.Now}
	return &objectStore{
		endpoint: strings.TrimRight(cmp.Or(endpoint, "https://s3."+region+".amazonaws.com"), "/"), bucket: bucket, key: key,
		name: "s3://" + bucket + "/" + key, escape: escapeS3, expires: credentials.Expiration.Time,
		authorize: func(req *http.Request, upload bool) {
			for name, value := range headers {
				if upload && value != "" {
					req.Header.Set(name, value)
				}
			}
			signer.sign(req, unsignedPayload)
		},
	}
}

// s3Signer signs requests with version 4 of S3's signatures, without the bytes of the body: TLS protects them. This module
// needs one put and one get of S3, which is a page of code. The client library of S3 would be its largest dependency.
type s3Signer struct {
	region      string
	credentials S3Credentials
	now         func() time.Time
}

const unsignedPayload = "UNSIGNED-PAYLOAD"

// sign adds the headers of the signature. payload is the hash of the body, or unsignedPayload.
func (s *s3Signer) sign(req *http.Request, payload string) {
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
