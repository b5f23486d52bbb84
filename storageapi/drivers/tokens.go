package drivers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/forebay/forebay/storageapi"
)

// SinkToken is the token of one sink.
type SinkToken struct {
	// ID deletes the token.
	ID storageapi.ID `json:"id"`
	// Token is the secret.
	Token storageapi.Secret `json:"token"`
	// Bucket is the bucket that the token may write.
	Bucket string `json:"bucket"`
}

// TokenSource gives the tokens of sinks. Implementations must be safe for concurrent use.
type TokenSource interface {
	// Get returns the token of a sink, or an error that matches [fs.ErrNotExist].
	Get(ctx context.Context, sinkID string) (SinkToken, error)
}

// TokenStore keeps the tokens of sinks over restarts. A [Target] with a store makes and renews them. With a plain TokenSource
// tokens are made elsewhere, and a sink without a token for its bucket uses the client's.
type TokenStore interface {
	TokenSource
	// Put stores the token of a sink durably, in place of the one before.
	Put(ctx context.Context, sinkID string, token SinkToken) error
	// Delete removes the token of a sink. A missing one is a success.
	Delete(ctx context.Context, sinkID string) error
}

// TokenDir is a [TokenStore] with one file for each sink, readable by the owner only. Secrets are not encrypted.
type TokenDir struct {
	dir string
	mu  sync.Mutex // held while a file is written, so that two writers of one sink do not meet
}

var _ TokenStore = (*TokenDir)(nil)

// NewTokenDir returns a store in a directory. The first Put creates the directory.
func NewTokenDir(dir string) *TokenDir { return &TokenDir{dir: dir} }

func (d *TokenDir) path(sinkID string) string {
	sum := sha256.Sum256([]byte(sinkID))
	return filepath.Join(d.dir, hex.EncodeToString(sum[:16])+".json")
}

type storedToken struct {
	Sink string `json:"sink"`
	SinkToken
}

// Get implements [TokenStore].
func (d *TokenDir) Get(_ context.Context, sinkID string) (SinkToken, error) {
	data, err := os.ReadFile(d.path(sinkID))
	if err != nil {
		return SinkToken{}, err
	}
	var stored storedToken
	if err := json.Unmarshal(data, &stored); err != nil || stored.Sink != sinkID {
		return SinkToken{}, fmt.Errorf("token of sink %q: the file %s is damaged, delete it to have a new token made", sinkID, d.path(sinkID))
	}
	return stored.SinkToken, nil
}

// Put implements [TokenStore].
func (d *TokenDir) Put(_ context.Context, sinkID string, token SinkToken) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(storedToken{sinkID, token})
	if err != nil {
		return err
	}
	temp := d.path(sinkID) + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, d.path(sinkID)); err != nil {
		return err
	}
	return d.sync()
}

func (d *TokenDir) sync() error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Delete implements [TokenStore].
func (d *TokenDir) Delete(_ context.Context, sinkID string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := os.Remove(d.path(sinkID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, d.sync())
}
