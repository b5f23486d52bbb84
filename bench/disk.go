package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A ring is a set of files whose blocks have all been written once. Writing goes through them in turn and starts again
// at the first, as a log does that recycles its segments, so the file system has nothing to allocate and no size to
// record, so a sync is the flush of the data alone.
type ring struct {
	volume   *volume
	files    []*os.File
	fileSize int64
	file     int
	offset   int64
}

const (
	ringFiles = 4
	// segmentSize is the size of a usual log segment, shortSegmentSize is for measurements that end before they
	// have gone around a larger ring. Both are multiples of the block that open writes.
	segmentSize      = 64 << 20
	shortSegmentSize = 8 << 20
)

// open writes the files in dir, once. It takes up to some seconds, depending on the disk. close is due after an error
// too.
func (r *ring) open(v *volume, dir string, fileSize int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	r.volume, r.fileSize = v, fileSize
	block := noise(1 << 20)
	for i := range ringFiles {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("segment-%d", i)))
		if err != nil {
			return err
		}
		r.files = append(r.files, f)
		for range fileSize / int64(len(block)) {
			if _, err := f.Write(block); err != nil {
				return err
			}
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// append makes b durable after the bytes of the previous call. b must not be longer than a file.
func (r *ring) append(b []byte) error {
	if r.offset+int64(len(b)) > r.fileSize {
		r.file, r.offset = (r.file+1)%len(r.files), 0
	}
	f := r.files[r.file]
	if _, err := f.WriteAt(b, r.offset); err != nil {
		return err
	}
	r.offset += int64(len(b))
	return r.volume.datasync(f, int64(len(b)), false)
}

func (r *ring) close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close(), os.Remove(f.Name()))
	}
	return errors.Join(errs...)
}

// noise returns bytes that no layer below can compress or deduplicate.
func noise(n int) []byte {
	rng := rand.NewChaCha8([32]byte{})
	b := make([]byte, n)
	_, _ = rng.Read(b)
	return b
}

// sharedRing gives all measurements of a run the same ring, so that it is written once.
type sharedRing struct {
	ring
	dir  string
	once sync.Once
	err  error
}

func newSharedRing(dir string) *sharedRing { return &sharedRing{dir: filepath.Join(dir, "segments")} }

func (s *sharedRing) get(e *env) (*ring, error) {
	s.once.Do(func() {
		size := int64(segmentSize)
		if e.duration < time.Second {
			size = shortSegmentSize
		}
		s.err = s.open(e.volume, s.dir, size)
	})
	return &s.ring, s.err
}

// seqwrite writes groups of one size, each with its own sync, into blocks already written. This is the most that any log on
// this disk can do that syncs as often.
func seqwrite(groupBytes int) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		r, err := e.ring.get(e)
		if err != nil {
			return nil, err
		}
		group := noise(groupBytes)
		return oneCore(ctx, e, groupBytes, 1, func() (int, error) { return 1, r.append(group) })
	}
}
