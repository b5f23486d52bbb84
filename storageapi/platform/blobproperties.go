package platform

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

const (
	// maxBlobProperties bounds the names and values of the properties of a blob.
	maxBlobProperties  = 8 << 10
	defaultContentType = "application/octet-stream"
)

// blobProperties are the header fields that a client stores with a blob and gets back with it, standard ones such as
// Content-Type, and its own as x-ms-meta-….
type blobProperties map[string]string

// readBlobProperties reads them from the header of a put. Content-Type describes the blob only if x-ms-blob-content-type is
// absent and the request carries the whole blob.
func readBlobProperties(h http.Header, whole bool) (blobProperties, error) {
	p := make(blobProperties)
	size := 0
	for name, values := range h {
		lower := strings.ToLower(name)
		switch {
		case lower == "x-ms-blob-cache-control":
			name = "Cache-Control"
		case lower == "x-ms-blob-content-md5":
			continue // nothing checks it
		case strings.HasPrefix(lower, "x-ms-blob-content-"):
			name = http.CanonicalHeaderKey(strings.TrimPrefix(lower, "x-ms-blob-"))
		case strings.HasPrefix(lower, "x-ms-meta-"):
			name = lower
		default:
			continue
		}
		if values[0] != "" {
			p[name] = values[0]
			size += len(name) + len(values[0])
		}
	}
	if whole && p["Content-Type"] == "" {
		p["Content-Type"] = h.Get("Content-Type")
	}
	if size > maxBlobProperties {
		return nil, &blobError{http.StatusBadRequest, "MetadataTooLarge"}
	}
	if kind := p["Content-Type"]; kind == "" || kind == defaultContentType {
		delete(p, "Content-Type")
	}
	return p, nil
}

// propertiesPath is the file with the properties of a blob. No blob has that name.
func (b *blobs) propertiesPath(file int64, name string) string {
	return filepath.Join(b.folder(file), diskName("p-", "ph-", name))
}

// setProperties stores the properties of a blob that is stored next. Without properties there is no file.
func (b *blobs) setProperties(file int64, name string, p blobProperties) error {
	path := b.propertiesPath(file, name)
	if len(p) == 0 {
		return ignoreAbsent(os.Remove(path))
	}
	_, err := b.writeAt(file, path, func(w io.Writer) error { return json.NewEncoder(w).Encode(p) })
	return err
}

func (b *blobs) properties(file int64, name string) (p blobProperties, err error) {
	data, err := os.ReadFile(b.propertiesPath(file, name))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	return p, ignoreAbsent(err)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write sets the header of a response about a blob.
func (p blobProperties) write(h http.Header, written time.Time) {
	h.Set("Content-Type", defaultContentType)
	for name, value := range p {
		h.Set(name, value)
	}
	h.Set("x-ms-blob-type", "BlockBlob")
	h.Set("x-ms-creation-time", written.UTC().Format(http.TimeFormat))
	h.Set("x-ms-server-encrypted", "false")
	h.Set("Accept-Ranges", "bytes")
}

// sliceAddress is how a manifest names a blob, by the public address of the container, with azure in place of https. Clients
// replace https in the address of their credentials and compare. Over plain http there is nothing to replace.
func (c *request) sliceAddress(name string) string {
	if c.s.opts.S3 != nil {
		return objectAddress(name)
	}
	base := c.base()
	if host, secure := strings.CutPrefix(base, "https://"); secure {
		base = storageapi.ProviderAzure + "://" + host
	}
	return base + blobPath + "/" + blobContainer + "/" + name
}

// objectAddress is sliceAddress for S3.
func objectAddress(name string) string { return "s3://" + ObjectBucket + "/" + name }

// servedManifest rewrites the entries of a manifest, so that clients get the address that this server hands out, whatever the writer
// used. Bytes that are not a manifest are returned unchanged.
func servedManifest(file int64, f io.Reader, address func(name string) string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, err
	}
	var m struct {
		Entries []map[string]json.RawMessage `json:"entries"`
	}
	if json.Unmarshal(data, &m) != nil || m.Entries == nil {
		return data, nil
	}
	name := blobName(file, true)
	for _, e := range m.Entries {
		var written string
		_ = json.Unmarshal(e["url"], &written)
		_, inner, ok := strings.Cut(written, "/"+blobContainer+"/"+name)
		if !ok {
			return data, nil
		}
		if e["url"], err = jsontext.Marshal(address(name + inner)); err != nil {
			return nil, err
		}
	}
	return jsontext.Marshal(m)
}
