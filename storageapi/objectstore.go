package storageapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// objectStore is the place of the bytes of one file, with the credentials for it.
type objectStore struct {
	// endpoint is the address of the store. The path of an object is bucket and key.
	endpoint, bucket, key string
	// query is sent with each request, escaped.
	query string
	// name is how a manifest names the file itself.
	name string
	// escape escapes names in a path. It leaves slashes.
	escape func(name string) string
	// authorize adds the headers that the store asks for.
	authorize func(req *http.Request, upload bool)
	// expires is the end of the credentials, zero if it is unknown.
	expires time.Time
}

// request makes a request for an object. inner follows the file's own name in the object's; "" is the file itself. body has
// size bytes and is nil for reading. The error does not contain the address.
func (s *objectStore) request(ctx context.Context, method, inner string, body io.Reader, size int64) (*http.Request, error) {
	address := s.endpoint + "/" + s.escape(s.bucket) + "/" + s.escape(s.key+inner)
	if s.query != "" {
		address += "?" + s.query
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, errors.New("storage api: the address of the object store is malformed")
	}
	if body != nil {
		req.ContentLength = size
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	s.authorize(req, body != nil)
	return req, nil
}

// uploadStore returns the store of a file that was just prepared.
func (c *Client) uploadStore(f *File) (*objectStore, error) {
	switch {
	case f.AzureUpload != nil:
		p := f.AzureUpload
		return newAzureStore(p.Credentials, p.AccountName, p.Container, p.BlobName)
	case f.S3Upload != nil:
		p := f.S3Upload
		return newS3Store(c.opts.S3Endpoint, f.Region, p.Bucket, p.Key, p.Credentials, map[string]string{
			"x-amz-acl": p.ACL, "x-amz-server-side-encryption": p.Encryption,
		}), nil
	case f.GCSUpload != nil:
		p := f.GCSUpload
		return newGCSStore(c.opts.GCSEndpoint, p.Bucket, p.Key, p.GCSCredentials, f.Created.Time), nil
	}
	return nil, fmt.Errorf("storage api: file %d: no credentials for an upload to provider %q", f.ID, f.Provider)
}

// downloadStore returns the store of a file that was read with credentials.
func (c *Client) downloadStore(f *File) (*objectStore, error) {
	switch {
	case f.AzurePath != nil && f.AzureCredentials != nil:
		return newAzureStore(*f.AzureCredentials, "", f.AzurePath.Container, f.AzurePath.Name)
	case f.S3Path != nil && f.S3Credentials != nil:
		return newS3Store(c.opts.S3Endpoint, f.Region, f.S3Path.Bucket, f.S3Path.Key, *f.S3Credentials, nil), nil
	case f.GCSPath != nil && f.GCSCredentials != nil:
		return newGCSStore(c.opts.GCSEndpoint, f.GCSPath.Bucket, f.GCSPath.Key, *f.GCSCredentials, f.Created.Time), nil
	}
	return nil, fmt.Errorf("storage api: file %d: no credentials for a download from provider %q", f.ID, f.Provider)
}

// put stores one object, with retries.
func (c *Client) put(ctx context.Context, s *objectStore, inner string, src Source) error {
	return c.retry(ctx, http.MethodPut, "object", func() (fault, error) {
		rc, err := src.Open()
		if err != nil {
			return faultFinal, err
		}
		watched := &watchedReader{r: &sizedReader{ReadCloser: rc, size: src.Size, progress: src.Progress}}
		defer watched.stop()
		var body io.Reader = watched
		if src.Size == 0 {
			body = http.NoBody
		}
		req, err := s.request(ctx, http.MethodPut, inner, body, src.Size)
		if err != nil {
			return faultFinal, err
		}
		resp, f, err := c.transfer(req)
		if err == nil {
			drain(resp.Body)
		}
		if cause := watched.failure(); cause != nil { // whatever the server said is a consequence
			return faultFinal, fmt.Errorf("storage api: upload: %w", cause)
		}
		return f, err
	})
}

// get opens one object, with retries until the first byte. For a missing one the error matches fs.ErrNotExist.
func (c *Client) get(ctx context.Context, s *objectStore, inner string) (rc io.ReadCloser, err error) {
	err = c.retry(ctx, http.MethodGet, "object", func() (fault, error) {
		req, err := s.request(ctx, http.MethodGet, inner, nil, 0)
		if err != nil {
			return faultFinal, err
		}
		resp, f, err := c.transfer(req)
		if err == nil {
			rc = resp.Body
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", err, fs.ErrNotExist)
		}
		return f, err
	})
	return rc, err
}

// transfer makes one request to an object store. Its errors name neither address nor credentials.
func (c *Client) transfer(req *http.Request) (*http.Response, fault, error) {
	req.Header.Set("User-Agent", c.opts.UserAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, networkFault(err), fmt.Errorf("storage api: object store: %s: %w", req.Method, withoutURL(err))
	}
	if resp.StatusCode < 300 {
		return resp, faultFinal, nil
	}
	defer drain(resp.Body)
	e := &Error{
		Method: req.Method, Path: "object", Status: resp.StatusCode, Message: http.StatusText(resp.StatusCode),
		Code: resp.Header.Get("x-ms-error-code"), RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
	return nil, statusFault(e), e
}

// newAzureStore returns a store with the protocol of Azure's blobs. The credentials have the form
// "BlobEndpoint=<url>;SharedAccessSignature=<query>".
func newAzureStore(credentials AzureCredentials, account, container, blob string) (*objectStore, error) {
	s := &objectStore{
		bucket: container, key: blob, name: "azure://" + account + ".blob.core.windows.net/" + container + "/" + blob, escape: escapeObject,
		expires: credentials.Expiration.Time,
		authorize: func(req *http.Request, upload bool) {
			if upload {
				req.Header.Set("x-ms-blob-type", "BlockBlob")
			}
		},
	}
	for part := range strings.SplitSeq(string(credentials.SASConnectionString), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "BlobEndpoint":
			s.endpoint = strings.TrimRight(value, "/")
		case "SharedAccessSignature":
			s.query = value
		}
	}
	if s.endpoint == "" || s.query == "" {
		return nil, errors.New("storage api: the credentials of the upload have no address or no signature")
	}
	return s, nil
}

// newGCSStore returns a store with the XML protocol of Google's.
func newGCSStore(endpoint, bucket, key string, credentials GCSCredentials, created time.Time) *objectStore {
	authorization := cmp.Or(credentials.TokenType, "Bearer") + " " + string(credentials.AccessToken)
	s := &objectStore{
		endpoint: strings.TrimRight(cmp.Or(endpoint, "https://storage.googleapis.com"), "/"), bucket: bucket, key: key,
		name: "gs://" + bucket + "/" + key, escape: escapeObject,
		authorize: func(req *http.Request, _ bool) { req.Header.Set("Authorization", authorization) },
	}
	if credentials.ExpiresIn > 0 && !created.IsZero() {
		s.expires = created.Add(time.Duration(credentials.ExpiresIn) * time.Second)
	}
	return s
}

// escapeObject escapes the name of an object and leaves slashes.
func escapeObject(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
