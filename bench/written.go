package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

// written measures how many bytes the local level writes for each byte it stores. It counts the calls that write to a
// file, so other programs do not matter. Not counted are blocks that the file system adds by itself, and staging and
// tables, which write each byte once. With held, slices wait so long for their upload that the store writes them from its log
// to tables.
//
// The events are random letters, so that neither the sink nor the store can shorten them by much.
func written(c forebay.Compression, held bool) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		staging := &delayedStaging{Staging: dir.Staging(filepath.Join(e.dir, "staging")), released: !held, life: e.size.Life}
		var counts writes
		s := setup{
			options: forebay.Options{
				Staging: staging, Target: closedTarget{}, Buffer: localdisk.On(buffer.Tuning{MaxDiskBytes: roomForAll}, counts.fs()),
			},
			source: forebay.Source{Settings: forebay.Settings{Compression: c}},
		}
		window := e.duration
		if held { // long enough that most slices live and end within the run
			window = max(window, 3*e.size.Life)
		}
		return s.measured(ctx, e, func(eng *forebay.Engine) (*sample, error) {
			load := startLoad(ctx, 64, func(caller int, overloads *atomic.Int64) operation {
				return ingestRandom(ctx, eng, caller, overloads)
			})
			defer load.stop()
			go staging.watch(load.ctx, &load.rows)
			before := readUsage(e)
			wait(load.ctx, window, nil)
			s := readUsage(e).since(before)
			if err := load.stop(); err != nil {
				return nil, err
			}
			s.Total, s.Overloads = load.rows.Load(), load.overloads.Load()
			s.Rows = s.Total
			log, tables, all := counts.log.Load(), counts.tables.Load(), counts.all.Load()
			created, reused := counts.created.Load(), counts.reused.Load()
			staging.release()

			// A slice that moves while it is read would be left out.
			if err := until(ctx, 10*time.Millisecond, func() bool { return eng.Stats().Sinks[0].Slices[buffer.SliceUploading] == 0 }); err != nil {
				return nil, err
			}
			stats := eng.Stats().Sinks[0]
			stored := float64(stats.Local.StoredBytes + stats.Staging.StoredBytes)
			s.Bytes = stats.Local.RawBytes + stats.Staging.RawBytes
			s.Figures = map[string]float64{
				"local_written_per_byte": float64(all) / stored,
				"log_per_byte":           float64(log) / stored,
				"tables_per_byte":        float64(tables) / stored,
				"stored_per_byte":        stored / float64(s.Bytes),
				"logs_created":           float64(created),
				"logs_recycled":          float64(reused),
			}
			return s, nil
		})
	}
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
	return single(ctx, eng, records, overloads)
}

// delayedStaging takes a slice when its last row has been there for the time life.
type delayedStaging struct {
	driver.Staging
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

func (s *delayedStaging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if err := until(ctx, 10*time.Millisecond, func() bool { return s.due(obj.Rows) }); err != nil {
		return err
	}
	return s.Staging.Put(ctx, obj, src)
}

// writes counts written bytes by the kind of file, and how log files are created.
type writes struct {
	log, tables, all atomic.Int64
	created, reused  atomic.Int64
}

func (w *writes) fs() vfs.FS {
	return &watchedFS{FS: vfs.Default, open: func(name string, how opening, _ int64) watcher {
		f := countedFile{&w.all}
		switch {
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
			return append(f, &w.tables)
		case !strings.HasSuffix(name, ".log"):
			return f
		case how == created:
			w.created.Add(1)
		case how == reused:
			w.reused.Add(1)
		}
		return append(f, &w.log)
	}}
}

type countedFile []*atomic.Int64

func (f countedFile) wrote(from, to int64) {
	for _, n := range f {
		n.Add(to - from)
	}
}

func (countedFile) sync(real func() error) error { return real() }
