package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// outage is a pair of drivers that can be away, and counts the calls meanwhile.
type outage struct {
	*buffertest.Memory
	away  atomic.Bool
	err   error
	calls atomic.Int64
	only  string // the sink that it is away for, empty for all
}

func (o *outage) fails(sink string) error {
	if !o.away.Load() || o.only != "" && o.only != sink {
		return nil
	}
	o.calls.Add(1)
	return o.err
}

func (o *outage) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if err := o.fails(obj.SinkID); err != nil {
		return fmt.Errorf("put %s: %w", obj.ID, err)
	}
	return o.Memory.Put(ctx, obj, src)
}

func (o *outage) Import(ctx context.Context, f *driver.File) error {
	if err := o.fails(f.SinkID); err != nil {
		return fmt.Errorf("import %s: %w", f.ID, err)
	}
	return o.Memory.Import(ctx, f)
}

// lines counts log lines by their message.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "msg="+message) + strings.Count(l.text.String(), `msg="`+message+`"`)
}

// withOutage runs a test with three sinks, each of which has many slices that wait for a staging that is away.
func withOutage(t *testing.T, level slog.Level, check func(t *testing.T, b *buffer.Buffer, o *outage, log *lines)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{Memory: buffertest.NewMemory(), err: errors.New("connection refused")}
		o.away.Store(true)
		log := &lines{}
		opts := memoryOptions(t, o.Memory)
		opts.Staging, opts.Target = o, o
		opts.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
		b := open(t, opts)
		for _, id := range []string{"a", "b", "c"} {
			s := define(t, b, id, func(c *buffer.SinkConfig) { c.Upload.Count = 1 })
			putSlices(t, b, s, 100)
			must(t, b.Sink(id).CloseFile(t.Context(), 1))
		}
		synctest.Wait()
		check(t, b, o, log)
	})
}

// slowLog is a file system whose logs can be held up.
type slowLog struct {
	vfs.FS
	gate chan struct{}
}

func (f *slowLog) hold() { f.gate <- struct{}{} }

func (f *slowLog) release() { <-f.gate }

func (f *slowLog) log(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return &slowFile{file, f.gate}, nil
}

func (f *slowLog) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return f.log(name, file, err)
}

func (f *slowLog) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(old, name, c)
	return f.log(name, file, err)
}

type slowFile struct {
	vfs.File
	gate chan struct{}
}

func (f *slowFile) wait() {
	f.gate <- struct{}{}
	<-f.gate
}

func (f *slowFile) Write(p []byte) (int, error) {
	f.wait()
	return f.File.Write(p)
}

func (f *slowFile) SyncData() error {
	f.wait()
	return f.File.SyncData()
}

func (f *slowFile) Sync() error {
	f.wait()
	return f.File.Sync()
}

// gated lets imports fail until it is opened.
type gated struct{ open atomic.Bool }

func (g *gated) before(_ context.Context, c buffertest.Call) error {
	if c.Op == buffertest.OpImport && !g.open.Load() {
		return errors.New("not yet")
	}
	return nil
}

func downMemory(down *atomic.Bool) *buffertest.Memory {
	mem := buffertest.NewMemory()
	mem.Before = failWhile(down.Load, errors.New("down"), buffertest.OpPut)
	return mem
}

// down makes drivers that fail while they are down.
type down struct{ staging, target atomic.Bool }

func (d *down) err(staging bool) error {
	if staging && d.staging.Load() || !staging && d.target.Load() {
		return errors.New("down")
	}
	return nil
}
