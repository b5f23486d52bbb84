package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

// written measures how many bytes the local level writes for each byte it stores. It counts the calls that write to a
// file, so other programs do not matter; blocks that the file system adds by itself are not in it, nor are staging and
// tables, which write what they are given once each.
//
// The events are random letters, so that neither the sink nor the store can shorten them by much.
type written struct {
	compression forebay.Compression
	// held lets slices wait for their upload, so that they are written from the log to tables of the store meanwhile.
	held bool
}

func (x written) run(ctx context.Context, e *env) (_ *sample, err error) {
	path, err := os.MkdirTemp(e.dir, "written-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	var staging buffer.Staging = dir.Staging(filepath.Join(path, "staging"))
	var delayed *delayedStaging
	if x.held {
		delayed = &delayedStaging{Staging: staging, life: e.size.life}
		staging = delayed
	}
	fs := &countingFS{FS: vfs.Default}
	eng, err := forebay.Open(filepath.Join(path, "data"), forebay.Options{
		Staging: staging, Target: closedTarget{}, Buffer: buffer.Options{MaxDiskBytes: roomForAll}.OnDisk(localdisk.Of(fs)),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if err := eng.Define(ctx, forebay.Source{
		ID: sourceID, Secret: secret, Settings: forebay.Settings{Compression: x.compression},
		Sinks: []forebay.Sink{{ID: sinkID, Table: forebay.Table{ID: "in.c-web.events", Columns: columns()}}},
	}); err != nil {
		return nil, err
	}

	// Long enough that most slices live and end within the run.
	window := e.duration
	if x.held {
		window = max(window, 3*e.size.life)
	}
	const callers = 64
	load := startLoad(ctx, callers, func(caller int, overloads *atomic.Int64) operation {
		return ingestRandom(ctx, eng, caller, overloads)
	})
	defer load.stop()
	if delayed != nil {
		go delayed.watch(load.ctx, &load.rows)
	}
	before := readUsage(e)
	wait(ctx, window, load.failed)
	s := readUsage(e).since(before)
	if err := load.stop(); err != nil {
		return nil, err
	}
	s.rows, s.overloads = load.rows.Load(), load.overloads.Load()
	s.total = s.rows
	log, tables, other := fs.log.Load(), fs.tables.Load(), fs.other.Load()
	created, reused := fs.created.Load(), fs.reused.Load()
	if delayed != nil {
		delayed.release()
	}

	// A slice that moves while it is read would be left out.
	for eng.Stats().Sinks[0].Slices[buffer.SliceUploading] > 0 {
		wait(ctx, 10*time.Millisecond, nil)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	db := &instance{dir: path, eng: eng}
	if err := db.verify(ctx, s.total); err != nil {
		return nil, err
	}
	stats := eng.Stats().Sinks[0]
	stored := float64(stats.Local.StoredBytes + stats.Staging.StoredBytes)
	s.bytes = stats.Local.RawBytes + stats.Staging.RawBytes
	s.figures = map[string]float64{
		"local_written_per_byte": float64(log+tables+other) / stored,
		"log_per_byte":           float64(log) / stored,
		"tables_per_byte":        float64(tables) / stored,
		"stored_per_byte":        stored / float64(s.bytes),
		"logs_created":           float64(created),
		"logs_recycled":          float64(reused),
	}
	return s, nil
}

// ingestRandom ingests events of one kilobyte, most of it random.
func ingestRandom(ctx context.Context, eng *forebay.Engine, caller int, overloads *atomic.Int64) operation {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	rng := rand.New(rand.NewPCG(uint64(caller), 2))
	records := make([]*mapping.Record, 64)
	for i := range records {
		body := fmt.Appendf(nil, `{"id":"evt_%d_%d","user":{"id":%d},"payload":"`, caller, i, caller)
		for len(body) < 1022 {
			body = append(body, letters[rng.IntN(len(letters))])
		}
		records[i] = &mapping.Record{Body: append(body, `"}`...), Format: mapping.FormatJSON, Header: header(), ClientIP: clientIP}
	}
	n := 0
	return func() (int, error) {
		n++
		res, err := eng.Ingest(ctx, sourceID, again(records[n%len(records)]))
		if err != nil {
			return 0, backOff(err, overloads)
		}
		return kept(res)
	}
}

// delayedStaging takes a slice when its last row has been there for the time life.
type delayedStaging struct {
	buffer.Staging
	life time.Duration

	mu       sync.Mutex
	accepted []point
	put      int64
	released bool
}

// A point is how many rows were accepted until a moment.
type point struct {
	at   time.Time
	rows int64
}

func (s *delayedStaging) watch(ctx context.Context, rows *atomic.Int64) {
	for ctx.Err() == nil {
		s.mu.Lock()
		s.accepted = append(s.accepted, point{time.Now(), rows.Load()})
		s.mu.Unlock()
		wait(ctx, 20*time.Millisecond, nil)
	}
}

func (s *delayedStaging) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
}

// due takes the rows of a slice when they are old enough.
func (s *delayedStaging) due(rows int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := int64(0)
	for len(s.accepted) > 1 && time.Since(s.accepted[1].at) >= s.life {
		s.accepted = s.accepted[1:]
	}
	if len(s.accepted) > 0 && time.Since(s.accepted[0].at) >= s.life {
		old = s.accepted[0].rows
	}
	if !s.released && s.put+rows > old {
		return false
	}
	s.put += rows
	return true
}

func (s *delayedStaging) Put(ctx context.Context, obj buffer.Object, src buffer.Content) error {
	for !s.due(obj.Rows) {
		wait(ctx, 10*time.Millisecond, nil)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return s.Staging.Put(ctx, obj, src)
}

// countingFS counts what is written, by the kind of file, and how log files come to be.
type countingFS struct {
	vfs.FS
	log, tables, other atomic.Int64
	created, reused    atomic.Int64
}

func (fs *countingFS) count(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	kind := &fs.other
	switch {
	case isLog(name):
		kind = &fs.log
	case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
		kind = &fs.tables
	}
	return &countingFile{f, kind}, nil
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// Create implements [vfs.FS].
func (fs *countingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if isLog(name) {
		fs.created.Add(1)
	}
	f, err := fs.FS.Create(name, c)
	return fs.count(name, f, err)
}

// OpenReadWrite implements [vfs.FS].
func (fs *countingFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, opts...)
	return fs.count(name, f, err)
}

// ReuseForWrite implements [vfs.FS].
func (fs *countingFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if isLog(name) {
		fs.reused.Add(1)
	}
	f, err := fs.FS.ReuseForWrite(old, name, c)
	return fs.count(name, f, err)
}

// Unwrap implements [vfs.FS].
func (fs *countingFS) Unwrap() vfs.FS { return fs.FS }

type countingFile struct {
	vfs.File
	n *atomic.Int64
}

// Write implements [vfs.File].
func (f *countingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.n.Add(int64(n))
	return n, err
}

// WriteAt implements [vfs.File].
func (f *countingFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.n.Add(int64(n))
	return n, err
}
