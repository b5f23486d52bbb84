package checkpoint

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// Manifest lists the contents of a checkpoint.
type Manifest struct {
	// Instance is the instance whose files they are, Epoch the epoch of the owner that saved them.
	Instance string `json:"instance"`
	Epoch    uint64 `json:"epoch"`
	// Log is the ID of the instance's stream. See [changelog.Stat].
	Log string `json:"log"`
	// Number is the last batch that the checkpoint has.
	Number uint64 `json:"number"`
	// Trim is the position up to which the log may be trimmed once the owner's record names the checkpoint.
	Trim changelog.Position `json:"trim"`
	// Made is when the owner made it, by its clock. Nothing depends on it.
	Made time.Time `json:"made,omitzero"`
	// Unchecked says that tables among the files may be damaged. Store.Save stores no new damage. Data that the
	// disk has lost would be lost with the log before Trim. Set it if no other copy has more than the folder.
	Unchecked bool `json:"unchecked,omitempty"`
	// Files are the files of the folder, in the order of their names. Store.Save sets them.
	Files []File `json:"files"`

	ref string // the name of the manifest's own object, empty until it is saved or loaded
}

// File is one file of a checkpoint.
type File struct {
	// Name is the path in the folder, with slashes.
	Name string `json:"name"`
	// Object is the name of its object in staging. An empty file has none.
	Object string `json:"object,omitempty"`
	Size   int64  `json:"size"`
	// Hash is the SHA-256 of its bytes, in hexadecimal.
	Hash string `json:"hash"`

	modified time.Time // on the disk from which this process has saved it
}

// manifestFormat is the format that this release writes, and the newest that it reads. A member that an older release must not
// ignore raises it.
const manifestFormat = 1

// maxManifest bounds the memory that reading a manifest takes. A file takes about 200 bytes of it.
const maxManifest = 16 << 20

// prefix begins the names of all objects that one owner of an instance stores.
func prefix(instance string, epoch uint64) string {
	return fmt.Sprintf("%s%d-", instancePrefix(instance), epoch)
}

// instancePrefix begins the names of all objects of an instance.
func instancePrefix(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	return fmt.Sprintf("ckpt-%x-", sum[:6])
}

// prefixOf returns the prefix of an object's name.
func prefixOf(object string) string { return object[:strings.LastIndexByte(object, '-')+1] }

// objectName ends a prefix with a hash over parts. With the longest epoch the name has the 64 bytes that a staging allows.
func objectName(prefix string, parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part) // the length keeps "ab", "c" and "a", "bc" apart
	}
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:16]))
}

// encode returns the bytes of the manifest's object and sets its ref.
func (m *Manifest) encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(struct {
		Format int `json:"format"`
		*Manifest
	}{manifestFormat, m})
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("the manifest of %d files takes %d bytes, more than %d", len(m.Files), len(data), maxManifest)
	}
	m.ref = objectName(prefix(m.Instance, m.Epoch), string(data))
	return data, nil
}

var errNewer = errors.New("upgrade this node")

// decode reads the manifest of a ref. It refuses bytes that do not match this ref, and manifests of a newer release.
func decode(ref string, data []byte) (Manifest, error) {
	if objectName(prefixOf(ref), string(data)) != ref {
		return Manifest{}, &differError{name: "the manifest"}
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Manifest{}, err
	}
	if head.Format != manifestFormat {
		return Manifest{}, fmt.Errorf("its format is %d, this release reads %d: %w", head.Format, manifestFormat, errNewer)
	}
	m := Manifest{ref: ref}
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.check(); err != nil {
		return Manifest{}, err
	}
	if prefix(m.Instance, m.Epoch) != prefixOf(ref) {
		return Manifest{}, fmt.Errorf("it is of instance %s in epoch %d", m.Instance, m.Epoch)
	}
	return m, nil
}

func (m *Manifest) check() error {
	if m.Instance == "" || m.Epoch < 1 || m.Epoch > math.MaxInt64 {
		return fmt.Errorf("it is of instance %q in epoch %d", m.Instance, m.Epoch)
	}
	last := ""
	for _, f := range m.Files {
		hash, err := hex.DecodeString(f.Hash)
		switch {
		case !fs.ValidPath(f.Name) || f.Name <= last || strings.Contains(f.Name, `\`):
			return fmt.Errorf("the file %q has no place after %q", f.Name, last)
		case f.Size < 0 || err != nil || len(hash) != sha256.Size || (f.Object == "") != (f.Size == 0):
			return fmt.Errorf("the file %s has the object %q, the size %d and the hash %q", f.Name, f.Object, f.Size, f.Hash)
		}
		last = f.Name
	}
	return nil
}

// size returns the bytes of all files.
func (m *Manifest) size() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// objects are the names of all objects of the checkpoint. Its own is the last.
func (m *Manifest) objects() (names []string) {
	for _, f := range m.Files {
		if f.Object != "" {
			names = append(names, f.Object)
		}
	}
	if m.ref != "" {
		names = append(names, m.ref)
	}
	return names
}
