package platform

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// Clients of the platform upload files to a cloud's object store, with credentials that they get with the file. Only Azure's
// credentials name the address of the store, so this server speaks Azure's protocol, which is put (whole or in blocks), get, head and
// delete, with a signature in the query.

const (
	blobPath      = "/blob"
	blobContainer = "files"
	blobAccount   = "forebay"
	blobVersion   = "2021-12-02"
)

func (s *Server) blobRoutes() []route {
	path := blobPath + "/" + blobContainer + "/{name...}"
	return []route{
		{method: "PUT", path: path, public: true, api: blobAPI, run: (*request).putBlob},
		{method: "GET", path: path, public: true, api: blobAPI, run: (*request).getBlob},
		{method: "DELETE", path: path, public: true, api: blobAPI, run: (*request).deleteBlob},
	}
}

const blobKeyKey = "blob-key"

// signature signs the right to the blobs of one file until a time.
func (s *Server) signature(file int64, rights string, until time.Time) (string, error) {
	secret, err := s.blobKey()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%d %s %d", file, rights, until.Unix())
	return base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// blobKey returns the key of the signatures. The first call makes it.
func (s *Server) blobKey() (secret []byte, err error) {
	secret, err = viewed(s.store, func(tx *txn) ([]byte, error) { return find[[]byte](tx, blobKeyKey, nil) })
	if secret != nil || err != nil {
		return secret, err
	}
	err = s.store.update(blobKeyKey, func(tx *txn) error {
		if !tx.get(blobKeyKey, &secret) {
			secret = make([]byte, 32)
			_, _ = rand.Read(secret) // never fails
			tx.put(blobKeyKey, secret)
		}
		return nil
	})
	return secret, err
}

const (
	rightsRead  = "r"
	rightsWrite = "rcwd"
)

// signedQuery returns the query that grants access to the blobs of a file.
func (s *Server) signedQuery(file int64, rights string, until time.Time) (string, error) {
	signature, err := s.signature(file, rights, until)
	query := url.Values{
		"sv": {blobVersion}, "sr": {"c"}, "sp": {rights}, "se": {until.UTC().Format(time.RFC3339)}, "sig": {signature},
	}
	return query.Encode(), err
}

// blobCredentials returns the credentials with which a client accesses the blobs of a file.
func (c *request) blobCredentials(file int64, rights string, life time.Duration) (storageapi.AzureCredentials, error) {
	until := time.Now().Add(life)
	query, err := c.s.signedQuery(file, rights, until)
	return storageapi.AzureCredentials{
		SASConnectionString: storageapi.Secret("BlobEndpoint=" + c.base() + blobPath + ";SharedAccessSignature=" + query),
		Expiration:          storageapi.Time{Time: until.UTC()},
	}, err
}

// blobError is an error in the words of the object store.
type blobError struct {
	status int
	code   string
}

func (e *blobError) Error() string { return e.code }

func (s *Server) writeBlobError(w http.ResponseWriter, r *http.Request, err error) {
	e := &blobError{http.StatusInternalServerError, "InternalError"}
	switch {
	case errors.As(err, &e):
	case errors.Is(err, fs.ErrNotExist):
		e = &blobError{http.StatusNotFound, "BlobNotFound"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		e = &blobError{http.StatusBadRequest, "IncompleteBody"}
	case storeFailed(err) != nil, errors.Is(err, syscall.ENOSPC):
		e = &blobError{http.StatusServiceUnavailable, "ServerBusy"}
		w.Header().Set("Retry-After", "5")
		s.log.Error("platform: object store", "method", r.Method, "error", err)
	case r.Context().Err() == nil:
		s.log.Error("platform: object store", "method", r.Method, "error", err)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("x-ms-error-code", e.code)
	w.WriteHeader(e.status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, e.code, e.code)
}

// authorizeBlob checks the signature of a request and returns the blob that it names.
func (c *request) authorizeBlob(right string) (file int64, name string, err error) {
	file, name, ok := parseBlobName(c.r.PathValue("name"))
	if !ok {
		return 0, "", &blobError{http.StatusNotFound, "BlobNotFound"}
	}
	until, err := time.Parse(time.RFC3339, c.query("se"))
	if err != nil {
		return 0, "", &blobError{http.StatusForbidden, "AuthenticationFailed"}
	}
	want, err := c.s.signature(file, c.query("sp"), until)
	if err != nil {
		return 0, "", err
	}
	if !hmac.Equal([]byte(want), []byte(c.query("sig"))) || !time.Now().Before(until) {
		return 0, "", &blobError{http.StatusForbidden, "AuthenticationFailed"}
	}
	if !strings.Contains(c.query("sp"), right) {
		return 0, "", &blobError{http.StatusForbidden, "AuthorizationPermissionMismatch"}
	}
	err = c.s.findBlobFile(file) // an absent file gets the response for an absent blob
	c.w.Header().Set("x-ms-version", blobVersion)
	return file, name, err
}

type blockList struct {
	Blocks []struct {
		XMLName xml.Name
		ID      string `xml:",chardata"`
	} `xml:",any"`
}

func (c *request) putBlob() (any, error) {
	file, name, err := c.authorizeBlob("w")
	if err != nil {
		return nil, err
	}
	body := &contextReader{c.r.Context(), c.r.Body}
	switch c.query("comp") {
	case "block":
		if c.query("blockid") == "" {
			return nil, &blobError{http.StatusBadRequest, "InvalidQueryParameterValue"}
		}
		err = c.s.blobs.putBlock(file, name, c.query("blockid"), body)
	case "blocklist":
		var list blockList
		if xml.NewDecoder(io.LimitReader(body, 8<<20)).Decode(&list) != nil {
			return nil, &blobError{http.StatusBadRequest, "InvalidXmlDocument"}
		}
		var ids []string
		for _, b := range list.Blocks {
			ids = append(ids, b.ID)
		}
		if err := c.putProperties(file, name, false); err != nil {
			return nil, err
		}
		if err = c.s.blobs.putBlocks(file, name, ids); errors.Is(err, fs.ErrNotExist) {
			return nil, &blobError{http.StatusBadRequest, "InvalidBlockList"}
		}
	case "":
		if err := c.putProperties(file, name, true); err != nil {
			return nil, err
		}
		_, err = c.s.blobs.put(file, name, body)
	default:
		return nil, &blobError{http.StatusNotImplemented, "NotImplemented"}
	}
	if err != nil {
		return nil, err
	}
	var info fs.FileInfo // nil for a block, which is no blob yet
	if c.query("comp") != "block" {
		if info, err = c.s.blobs.stat(file, name); err != nil {
			return nil, err
		}
	}
	return rawAnswer(func(w http.ResponseWriter) {
		h := w.Header()
		if info != nil {
			h.Set("ETag", blobETag(info))
			h.Set("Last-Modified", info.ModTime().UTC().Format(http.TimeFormat))
		}
		h.Set("x-ms-request-server-encrypted", "false")
		w.WriteHeader(http.StatusCreated)
	}), nil
}

// blobETag changes with each put.
func blobETag(info fs.FileInfo) string {
	return fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
}

// putProperties stores the properties given in the header of the request.
func (c *request) putProperties(file int64, name string, whole bool) error {
	p, err := readBlobProperties(c.r.Header, whole)
	if err != nil {
		return err
	}
	return c.s.blobs.setProperties(file, name, p)
}

func (c *request) getBlob() (any, error) {
	file, name, err := c.authorizeBlob("r")
	if err != nil {
		return nil, err
	}
	if c.query("comp") != "" { // about the blob, such as its list of blocks
		return nil, &blobError{http.StatusNotImplemented, "NotImplemented"}
	}
	content, info, err := c.s.blobs.serve(file, name, c.sliceAddress)
	if err != nil {
		return nil, err
	}
	return rawAnswer(func(w http.ResponseWriter) {
		defer content.Close()
		if r := c.r.Header.Get("x-ms-range"); r != "" {
			c.r.Header.Set("Range", r)
		}
		h := w.Header()
		blobProperties(info.Properties).write(h, info.Written)
		h.Set("ETag", info.etag)
		if h.Get("Content-Encoding") != "" && c.r.Header.Get("Range") == "" {
			h.Set("Content-Length", strconv.FormatInt(info.Size, 10)) // ServeContent leaves it out then
		}
		http.ServeContent(w, c.r, "", info.Written, content)
	}), nil
}

func (c *request) deleteBlob() (any, error) {
	file, name, err := c.authorizeBlob("d")
	if err != nil {
		return nil, err
	}
	if err := c.s.blobs.remove(file, name); err != nil {
		return nil, err
	}
	return rawAnswer(func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }), nil
}
