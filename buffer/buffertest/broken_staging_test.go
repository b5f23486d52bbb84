package buffertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
)

// brokenStaging is a Memory whose operations a test replaces.
type brokenStaging struct {
	*Memory
	put  func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error
	open func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error)
	del  func(ctx context.Context, m *Memory, objs []driver.Object) error
}

func (b *brokenStaging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if b.put != nil {
		return b.put(ctx, b.Memory, obj, src)
	}
	return b.Memory.Put(ctx, obj, src)
}

func (b *brokenStaging) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	if b.open != nil {
		return b.open(ctx, b.Memory, obj)
	}
	return b.Memory.Open(ctx, obj)
}

func (b *brokenStaging) Delete(ctx context.Context, objs ...driver.Object) error {
	if b.del != nil {
		return b.del(ctx, b.Memory, objs)
	}
	return b.Memory.Delete(ctx, objs...)
}

func (m *Memory) storeRaw(obj driver.Object, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[obj.ID] = object{obj, data}
}

func (m *Memory) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[id]
	return ok
}

// Each of these drivers breaks one promise, and the check named for the promise must fail.
func TestBrokenStagingIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("the sound targets are enough for the race detector")
	}
	for name, tc := range map[string]struct {
		caughtBy string
		driver   brokenStaging
	}{
		"an interrupted put is visible": {"PutFails", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			var data bytes.Buffer
			_, err := src.WriteTo(ctxio.Writer(ctx, &data))
			m.storeRaw(obj, data.Bytes())
			return err
		}}},
		"an error of the source is swallowed": {"PutFails", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			var data bytes.Buffer
			_, _ = src.WriteTo(ctxio.Writer(ctx, &data))
			m.storeRaw(obj, data.Bytes())
			return nil
		}}},
		"a failed put is permanent": {"PutFails", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			return driver.Permanent(m.Put(ctx, obj, src))
		}}},
		"the cause of a failed put is lost": {"PutFails", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			if m.Put(ctx, obj, src) != nil {
				return errors.New("put failed")
			}
			return nil
		}}},
		"a second put is refused": {"PutAgain", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			if m.has(obj.ID) {
				return fs.ErrExist
			}
			return m.Put(ctx, obj, src)
		}}},
		"a second put appends": {"PutAgain", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			var data bytes.Buffer
			if old, err := m.Open(ctx, obj); err == nil {
				must(0, func() error { _, err := data.ReadFrom(old); return err }())
			}
			if _, err := src.WriteTo(ctxio.Writer(ctx, &data)); err != nil {
				return err
			}
			m.storeRaw(obj, data.Bytes())
			return nil
		}}},
		"a second put overwrites in place": {"PutAgain", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			var old, data bytes.Buffer
			if rc, err := m.Open(ctx, obj); err == nil {
				must(0, func() error { _, err := old.ReadFrom(rc); return err }())
			}
			if _, err := src.WriteTo(ctxio.Writer(ctx, &data)); err != nil {
				return err
			}
			m.storeRaw(obj, append(data.Bytes(), old.Bytes()[min(old.Len(), data.Len()):]...))
			return nil
		}}},
		"a failed second put destroys the object": {"PutAgainFails", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			_ = m.Delete(ctx, obj)
			return m.Put(ctx, obj, src)
		}}},
		"the context is ignored": {"PutCancelled", brokenStaging{put: func(_ context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			return m.Put(context.Background(), obj, src)
		}}},
		"a cancelled put stores what it has": {"PutCancelled", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			var data bytes.Buffer
			_, err := src.WriteTo(ctxio.Writer(ctx, &data))
			if err == nil || ctx.Err() != nil {
				m.storeRaw(obj, data.Bytes())
				return nil
			}
			return err
		}}},
		"readers stay open": {"PutThenOpen", brokenStaging{put: func(_ context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			rc, err := src.Open()
			if err != nil {
				return err
			}
			data, err := io.ReadAll(rc)
			if err == nil {
				m.storeRaw(obj, data)
			}
			return err
		}}},
		"gzip is decoded on the way": {"PutThenOpen", brokenStaging{open: func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error) {
			rc, err := m.Open(ctx, obj)
			if err != nil || obj.Encoding != driver.Gzip {
				return rc, err
			}
			return gzip.NewReader(rc)
		}}},
		"objects are cut at a megabyte": {"PutLargeObject", brokenStaging{open: func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error) {
			rc, err := m.Open(ctx, obj)
			if err != nil {
				return nil, err
			}
			return io.NopCloser(io.LimitReader(rc, 1<<20)), nil
		}}},
		"an absent object is another error": {"OpenAbsent", brokenStaging{open: func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error) {
			rc, err := m.Open(ctx, obj)
			if err != nil {
				return nil, errors.New("404")
			}
			return rc, nil
		}}},
		"an absent object is empty": {"OpenAbsent", brokenStaging{open: func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error) {
			rc, err := m.Open(ctx, obj)
			if err != nil {
				return io.NopCloser(strings.NewReader("")), nil
			}
			return rc, nil
		}}},
		"readers share a position": {"OpenTwice", func() brokenStaging {
			var mu sync.Mutex
			readers := map[string]io.ReadCloser{}
			return brokenStaging{open: func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error) {
				mu.Lock()
				defer mu.Unlock()
				rc, err := m.Open(ctx, obj)
				if err == nil && readers[obj.ID] == nil {
					readers[obj.ID] = rc
				}
				if obj.ID != "twice" {
					return rc, err
				}
				return readers[obj.ID], err
			}}
		}()},
		"deleting an absent object fails": {"Delete", brokenStaging{del: func(ctx context.Context, m *Memory, objs []driver.Object) error {
			for _, obj := range objs {
				if !m.has(obj.ID) {
					return fs.ErrNotExist
				}
			}
			return m.Delete(ctx, objs...)
		}}},
		"only the first object is deleted": {"Delete", brokenStaging{del: func(ctx context.Context, m *Memory, objs []driver.Object) error {
			return m.Delete(ctx, objs[:min(1, len(objs))]...)
		}}},
		"deleting forgets to": {"Delete", brokenStaging{del: func(context.Context, *Memory, []driver.Object) error { return nil }}},
		"deleting takes a prefix": {"LookAlikeIDs", brokenStaging{del: func(ctx context.Context, m *Memory, objs []driver.Object) error {
			for _, have := range m.Objects() {
				for _, obj := range objs {
					if strings.HasPrefix(have.ID, obj.ID) {
						_ = m.Delete(ctx, have)
					}
				}
			}
			return nil
		}}},
		"ids are cut": {"LookAlikeIDs", brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
			obj.ID = obj.ID[:min(63, len(obj.ID))]
			return m.Put(ctx, obj, src)
		}, open: func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error) {
			obj.ID = obj.ID[:min(63, len(obj.ID))]
			return m.Open(ctx, obj)
		}}},
		"all puts share one temporary place": {"PutConcurrently", func() brokenStaging {
			var mu sync.Mutex
			var shared bytes.Buffer
			meet := meeting(16) // the calls of the check
			return brokenStaging{put: func(_ context.Context, m *Memory, obj driver.Object, src driver.Content) error {
				w := writerFunc(func(p []byte) (int, error) {
					mu.Lock()
					defer mu.Unlock()
					return shared.Write(p)
				})
				if _, err := src.WriteTo(w); err != nil {
					return err
				}
				meet()
				mu.Lock()
				defer mu.Unlock()
				m.storeRaw(obj, bytes.Clone(shared.Bytes()))
				return nil
			}}
		}()},
		"a repeated put is visible while it is written": {"PutSameObjectConcurrently", func() brokenStaging {
			var opened atomic.Int64
			return brokenStaging{put: func(ctx context.Context, m *Memory, obj driver.Object, src driver.Content) error {
				m.storeRaw(obj, []byte("the beginning"))
				for before, i := opened.Load(), 0; opened.Load() == before && i < 1000; i++ {
					runtime.Gosched()
				}
				return m.Put(ctx, obj, src)
			}, open: func(ctx context.Context, m *Memory, obj driver.Object) (io.ReadCloser, error) {
				defer opened.Add(1)
				return m.Open(ctx, obj)
			}}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failedStaging(t, tc.caughtBy, func() driver.Staging {
				drv := tc.driver
				drv.Memory = NewMemory()
				return &drv
			})
			if len(failed) != 1 {
				t.Errorf("%s does not catch it", tc.caughtBy)
			}
		})
	}
}

// meeting returns a function in which callers wait until n of them have arrived. Later ones pass.
func meeting(n int64) func() {
	var arrived atomic.Int64
	return func() {
		for arrived.Add(1); arrived.Load() < n; {
			runtime.Gosched()
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
