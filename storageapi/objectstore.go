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
type objectStore interface {
	// request makes a request for an object, by what follows the file's own name in its name ("" for itself). body has
	// size bytes; it is nil for reading.
	request(ctx context.Context, method, inner string, body io.Reader, size int64) (*http.Request, error)
	// address is how a manifest names the object.
	address(inner string) string
	// expires is the end of the credentials, zero if it is not known.
	expires() time.Time
}

// uploadStore returns the store of a file that was just prepared.
func (c *Client) uploadStore(f *File) (objectStore, error) {
	switch {
	case f.AzureUpload != nil:
		p := f.AzureUpload
		return newAzureStore(p.Credentials, p.AccountName, p.Container, p.BlobName)
	case f.S3Upload != nil:
		p := f.S3Upload
		return newS3Store(c.opts.S3Endpoint, f.Region, p.Bucket, p.Key, p.Credentials, map[string]string{
			"x-amz-acl": p.ACL, "x-amz-server-side-encryption": p.Encryption,
		})
	case f.GCSUpload != nil:
		p := f.GCSUpload
		return newGCSStore(c.opts.GCSEndpoint, p.Bucket, p.Key, p.GCSCredentials, f.Created.Time)
	}
	return nil, fmt.Errorf("storage api: file %d: no credentials for an upload to provider %q", f.ID, f.Provider)
}

// downloadStore returns the store of a file that was read with credentials.
func (c *Client) downloadStore(f *File) (objectStore, error) {
	switch {
	case f.AzurePath != nil && f.AzureCredentials != nil:
		return newAzureStore(*f.AzureCredentials, "", f.AzurePath.Container, f.AzurePath.Name)
	case f.S3Path != nil && f.S3Credentials != nil:
		return newS3Store(c.opts.S3Endpoint, f.Region, f.S3Path.Bucket, f.S3Path.Key, *f.S3Credentials, nil)
	case f.GCSPath != nil && f.GCSCredentials != nil:
		return newGCSStore(c.opts.GCSEndpoint, f.GCSPath.Bucket, f.GCSPath.Key, *f.GCSCredentials, f.Created.Time)
	}
	return nil, fmt.Errorf("storage api: file %d: no credentials for a download from provider %q", f.ID, f.Provider)
}

// put stores one object, with repetitions. body opens a new reading of the same bytes.
func (c *Client) put(ctx context.Context, s objectStore, inner string, size int64, body func() (io.ReadCloser, error)) error {
	return c.retry(ctx, http.MethodPut, "object", func() (fault, error) {
		src, err := body()
		if err != nil {
			return faultFinal, err
		}
		watched := &watchedReader{r: src}
		defer watched.stop()
		var reader io.Reader = watched
		if size == 0 {
			reader = http.NoBody
		}
		req, err := s.request(ctx, http.MethodPut, inner, reader, size)
		if err != nil {
			return faultFinal, err
		}
		resp, f, err := c.transfer(req)
		if watched.failure() != nil {
			// The bytes could not be read: whatever the server said is a consequence.
			if err == nil {
				drain(resp.Body)
			}
			return faultFinal, fmt.Errorf("storage api: upload: %w", watched.failure())
		}
		if err != nil {
			return f, err
		}
		drain(resp.Body)
		return faultFinal, nil
	})
}

// get opens one object, with repetitions until the first byte. An absent one is an error that matches fs.ErrNotExist.
func (c *Client) get(ctx context.Context, s objectStore, inner string) (rc io.ReadCloser, err error) {
	err = c.retry(ctx, http.MethodGet, "object", func() (fault, error) {
		req, err := s.request(ctx, http.MethodGet, inner, nil, 0)
		if err != nil {
			return faultFinal, err
		}
		resp, f, err := c.transfer(req)
		if err == nil {
			rc = resp.Body
		}
		var e *Error
		if errors.As(err, &e) && e.Status == http.StatusNotFound {
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

// azureStore is a store with the protocol of Azure's blobs.
type azureStore struct {
	endpoint, query    string
	account, container string
	blob               string
	end                time.Time
}

// newAzureStore reads "BlobEndpoint=<url>;SharedAccessSignature=<query>".
func newAzureStore(credentials AzureCredentials, account, container, blob string) (objectStore, error) {
	s := &azureStore{account: account, container: container, blob: blob, end: credentials.Expiration.Time}
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

func (s *azureStore) request(ctx context.Context, method, inner string, body io.Reader, size int64) (*http.Request, error) {
	u := s.endpoint + "/" + escapeObject(s.container) + "/" + escapeObject(s.blob+inner) + "?" + s.query
	req, err := newObjectRequest(ctx, method, u, body, size)
	if err == nil && body != nil {
		req.Header.Set("x-ms-blob-type", "BlockBlob")
	}
	return req, err
}

func (s *azureStore) address(inner string) string {
	return "azure://" + s.account + ".blob.core.windows.net/" + s.container + "/" + s.blob + inner
}

func (s *azureStore) expires() time.Time { return s.end }

// gcsStore is a store with the XML protocol of Google's.
type gcsStore struct {
	endpoint, bucket, key string
	credentials           GCSCredentials
	end                   time.Time
}

func newGCSStore(endpoint, bucket, key string, credentials GCSCredentials, created time.Time) (objectStore, error) {
	endpoint = cmp.Or(endpoint, "https://storage.googleapis.com")
	s := &gcsStore{endpoint: strings.TrimRight(endpoint, "/"), bucket: bucket, key: key, credentials: credentials}
	if credentials.ExpiresIn > 0 && !created.IsZero() {
		s.end = created.Add(time.Duration(credentials.ExpiresIn) * time.Second)
	}
	return s, nil
}

func (s *gcsStore) request(ctx context.Context, method, inner string, body io.Reader, size int64) (*http.Request, error) {
	req, err := newObjectRequest(ctx, method, s.endpoint+"/"+escapeObject(s.bucket)+"/"+escapeObject(s.key+inner), body, size)
	if err == nil {
		req.Header.Set("Authorization", cmp.Or(s.credentials.TokenType, "Bearer")+" "+string(s.credentials.AccessToken))
	}
	return req, err
}

func (s *gcsStore) address(inner string) string { return "gs://" + s.bucket + "/" + s.key + inner }

func (s *gcsStore) expires() time.Time { return s.end }

// newObjectRequest is http.NewRequest without the address in its error.
func newObjectRequest(ctx context.Context, method, address string, body io.Reader, size int64) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, errors.New("storage api: the address of the object store is malformed")
	}
	if body != nil {
		req.ContentLength = size
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	return req, nil
}

// escapeObject escapes the name of an object, and leaves the slashes.
func escapeObject(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
