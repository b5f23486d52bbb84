package platform

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// S3Options make the server hand out temporary S3 credentials for uploads and downloads instead of Azure credentials.
// Package s3gateway serves them over [Server.Objects].
type S3Options struct {
	// Region is the region in clients' signatures. Default: "us-east-1".
	Region string
}

// ObjectBucket is the one bucket of all objects.
const ObjectBucket = blobContainer

// ErrObjectDenied is the error of a call whose access key has no right to the object, is unknown, or has expired.
var ErrObjectDenied = errors.New("the access key has no right to the object")

// Objects are the bytes of the server's files for a gateway that serves them with S3's protocol. An object is named by its
// key in [ObjectBucket]. Each call names the access key that has signed the request, and is refused with
// [ErrObjectDenied] when that does not allow it. An absent object is an error that matches [fs.ErrNotExist]. It is safe
// for concurrent use.
type Objects struct{ s *Server }

// Objects returns the bytes of the server's files.
func (s *Server) Objects() *Objects { return &Objects{s} }

// accessGrant is the content of an access key.
type accessGrant struct {
	file  int64
	write bool
	until time.Time
}

// accessPrefix marks temporary access keys, which need a session token.
const accessPrefix = "ASIA"

var accessEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// key encodes the grant as an access key, which is not secret. The signing secret is derived from it with a key of the server.
func (g accessGrant) key() string {
	data := binary.BigEndian.AppendUint64(nil, uint64(g.file))
	data = binary.BigEndian.AppendUint64(data, uint64(g.until.Unix())<<1)
	if g.write {
		data[len(data)-1] |= 1
	}
	return accessPrefix + accessEncoding.EncodeToString(data)
}

func parseAccessKey(key string) (g accessGrant, ok bool) {
	text, ok := strings.CutPrefix(key, accessPrefix)
	data, err := accessEncoding.DecodeString(text)
	if !ok || err != nil || len(data) != 16 {
		return g, false
	}
	end := binary.BigEndian.Uint64(data[8:])
	g = accessGrant{int64(binary.BigEndian.Uint64(data)), end&1 == 1, time.Unix(int64(end>>1), 0)}
	return g, g.key() == key
}

// derive returns the secret of an access key for one use.
func (s *Server) derive(use, accessKey string) (string, error) {
	secret, err := s.blobKey()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(use + sep + accessKey))
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// s3Credentials returns credentials that sign requests for a file.
func (s *Server) s3Credentials(file int64, write bool, life time.Duration) (storageapi.S3Credentials, error) {
	until := time.Now().Add(life).Truncate(time.Second)
	key := accessGrant{file, write, until}.key()
	secret, err := s.derive("s3 secret", key)
	if err != nil {
		return storageapi.S3Credentials{}, err
	}
	token, err := s.derive("s3 session", key)
	return storageapi.S3Credentials{
		AccessKeyID: key, SecretAccessKey: storageapi.Secret(secret), SessionToken: storageapi.Secret(token),
		Expiration: storageapi.Time{Time: until.UTC()},
	}, err
}

// SecretKey returns the secret that signs requests of an access key with its session token, or [ErrObjectDenied].
func (o *Objects) SecretKey(accessKey, sessionToken string) (string, error) {
	g, ok := parseAccessKey(accessKey)
	if !ok || !time.Now().Before(g.until) {
		return "", ErrObjectDenied
	}
	token, err := o.s.derive("s3 session", accessKey)
	if err != nil {
		return "", err
	}
	if !hmac.Equal([]byte(token), []byte(sessionToken)) {
		return "", ErrObjectDenied
	}
	return o.s.derive("s3 secret", accessKey)
}

// Region is the region in clients' signatures.
func (o *Objects) Region() string {
	if s3 := o.s.opts.S3; s3 != nil && s3.Region != "" {
		return s3.Region
	}
	return defaultS3Region
}

const defaultS3Region = "us-east-1"

// find checks the right to an object and returns the file and the name of its blob.
func (o *Objects) find(accessKey, key string, write bool) (file int64, name string, err error) {
	g, ok := parseAccessKey(accessKey)
	file, name, known := parseBlobName(key)
	if !ok || !known || g.file != file || write && !g.write || !time.Now().Before(g.until) {
		return 0, "", ErrObjectDenied
	}
	return file, name, o.s.findBlobFile(file)
}

// findBlobFile returns an error that matches [fs.ErrNotExist] if the file is deleted or expired.
func (s *Server) findBlobFile(id int64) error {
	return s.store.view(func(tx *txn) error {
		f, err := find[storedFile](tx, fileKey(id), fs.ErrNotExist)
		if err == nil && f.expired() {
			err = fs.ErrNotExist
		}
		return err
	})
}

// ObjectInfo describes an object.
type ObjectInfo struct {
	// Size is the number of bytes, Written the time of the last put.
	Size    int64
	Written time.Time
	// Properties are the header fields that the writer gave, such as Content-Type.
	Properties map[string]string

	etag string // changes with each put
}

// Open opens an object. The caller closes it.
func (o *Objects) Open(accessKey, key string) (io.ReadSeekCloser, ObjectInfo, error) {
	file, name, err := o.find(accessKey, key, false)
	if err != nil {
		return nil, ObjectInfo{}, err
	}
	return o.s.blobs.serve(file, name, objectAddress)
}

// serve opens a blob for clients. Entries of a manifest get the addresses that address returns.
func (b *blobs) serve(file int64, name string, address func(name string) string) (io.ReadSeekCloser, ObjectInfo, error) {
	f, err := b.open(file, name)
	if err != nil {
		return nil, ObjectInfo{}, err
	}
	var out io.ReadSeekCloser = f
	info := ObjectInfo{}
	stat, err := f.Stat()
	if err == nil {
		info.Size, info.Written, info.etag = stat.Size(), stat.ModTime(), blobETag(stat)
		info.Properties, err = b.properties(file, name)
	}
	if err == nil && name == storageapi.ManifestName {
		var manifest []byte
		manifest, err = servedManifest(file, f, address)
		info.Size, out = int64(len(manifest)), servedObject{bytes.NewReader(manifest), f}
	}
	if err != nil {
		return nil, ObjectInfo{}, errors.Join(err, f.Close())
	}
	return out, info, nil
}

// servedObject serves other bytes than its blob has.
type servedObject struct {
	*bytes.Reader
	io.Closer
}

// Put stores an object with its properties. When it returns nil, the bytes are on disk and have replaced an earlier object of
// the key. An error of body stores nothing.
func (o *Objects) Put(ctx context.Context, accessKey, key string, properties map[string]string, body io.Reader) error {
	return o.change(accessKey, key, func(b *blobs, file int64, name string) error {
		if err := b.setProperties(file, name, properties); err != nil {
			return err
		}
		_, err := b.put(file, name, &contextReader{ctx, body})
		return err
	})
}

// change runs do for an object that the access key may write.
func (o *Objects) change(accessKey, key string, do func(b *blobs, file int64, name string) error) error {
	file, name, err := o.find(accessKey, key, true)
	if err != nil {
		return err
	}
	return do(o.s.blobs, file, name)
}

// PutPart stores one part of an object, which [Objects.PutParts] joins. id is unique within the object.
func (o *Objects) PutPart(ctx context.Context, accessKey, key, id string, body io.Reader) error {
	return o.change(accessKey, key, func(b *blobs, file int64, name string) error {
		return b.putBlock(file, name, id, &contextReader{ctx, body})
	})
}

// PutParts joins parts, in the order of their ids, to an object and removes them. If a part is missing, the error matches
// [fs.ErrNotExist] and nothing has changed.
func (o *Objects) PutParts(accessKey, key string, properties map[string]string, ids []string) error {
	return o.change(accessKey, key, func(b *blobs, file int64, name string) error {
		if err := b.setProperties(file, name, properties); err != nil {
			return err
		}
		return b.putBlocks(file, name, ids)
	})
}

// Remove removes an object. A missing one is no error.
func (o *Objects) Remove(accessKey, key string) error {
	return o.change(accessKey, key, func(b *blobs, file int64, name string) error { return ignoreAbsent(b.remove(file, name)) })
}
