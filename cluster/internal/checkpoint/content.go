package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/driver"
)

// differError says that an object's bytes differ from the manifest.
type differError struct {
	name      string
	size, got int64
}

func (e *differError) Error() string {
	if e.size == e.got {
		return fmt.Sprintf("%s: the bytes differ from the saved bytes", e.name)
	}
	return fmt.Sprintf("%s: %d bytes were saved, and %d were read until the difference was found", e.name, e.size, e.got)
}

// verifying is a reader of a file of a manifest. It ends with a [differError] if the bytes are others, and never gives the last of
// them. A driver that knows the size may not read on to the error or io.EOF.
type verifying struct {
	io.ReadCloser
	file *File
	sum  hash.Hash
	got  int64
	read func(n int)
}

func verify(r io.ReadCloser, f *File, read func(n int)) *verifying {
	return &verifying{ReadCloser: r, file: f, sum: sha256.New(), read: read}
}

// Read implements [io.Reader].
func (v *verifying) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum.Write(p[:n])
	v.got += int64(n)
	v.read(n)
	if v.got > v.file.Size || v.got < v.file.Size && err == io.EOF ||
		v.got == v.file.Size && hex.EncodeToString(v.sum.Sum(nil)) != v.file.Hash {
		return 0, &differError{v.file.Name, v.file.Size, v.got}
	}
	return n, err
}

// content is a file of a folder. A disk that gives other bytes than when the manifest was made fails the transfer, because the staging
// must not get what would not verify.
type content struct {
	disk vfs.FS
	path string
	file *File
	read func(n int)
}

var _ driver.Content = content{}

// Open implements [driver.Content].
func (c content) Open() (io.ReadCloser, error) {
	f, err := c.disk.Open(c.path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	return verify(f, c.file, c.read), nil
}

// WriteTo implements [driver.Content].
func (c content) WriteTo(w io.Writer) (int64, error) {
	r, err := c.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.Copy(w, r)
}
