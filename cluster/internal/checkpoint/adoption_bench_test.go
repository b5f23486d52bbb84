package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// keptLog is a changelog that confirms everything at once, and keeps the batches after a number.
type keptLog struct {
	mu      sync.Mutex
	batches []buffer.LogBatch
	bytes   int64
}

func (l *keptLog) Begin(context.Context, buffer.LogPosition) iter.Seq2[buffer.LogBatch, error] {
	return func(func(buffer.LogBatch, error) bool) {}
}

func (l *keptLog) Mark() []byte { return nil }

func (l *keptLog) Append(number uint64, batch []byte) func(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, buffer.LogBatch{Number: number, Data: bytes.Clone(batch)})
	l.bytes += int64(len(batch))
	return func(context.Context) error { return nil }
}

func (l *keptLog) trim(through uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.batches) > 0 && l.batches[0].Number <= through {
		l.bytes -= int64(len(l.batches[0].Data))
		l.batches = l.batches[1:]
	}
}

func (l *keptLog) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// away is a staging that does not respond, so that all rows stay in the local level.
type away struct{ driver.Staging }

func (away) Put(ctx context.Context, _ driver.Object, _ driver.Content) error {
	<-ctx.Done()
	return ctx.Err()
}

// BenchmarkAdoption measures the work of an adopter before it can drain, with rows that cannot be compressed. It fetches the checkpoint
// from a shared folder, applies the log after it, a quarter of all rows, and opens the engine. The log is in memory.
//
//	cd cluster && go test ./internal/checkpoint -run '^$' -bench Adoption -benchtime 1x -mb 1024
func BenchmarkAdoption(b *testing.B) {
	tmp, log := b.TempDir(), &keptLog{}
	options := forebay.Options{Staging: away{}, Target: dir.Tables(filepath.Join(tmp, "tables")), Changelog: log}
	e, err := forebay.Open(filepath.Join(tmp, "owner"), options)
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Define(b.Context(), forebay.Source{
		ID:    "s",
		Sinks: []forebay.Sink{{ID: "k", Table: forebay.Table{ID: "t", Columns: mapping.Columns{mapping.Path("v", "v", mapping.RawString())}}}},
	}); err != nil {
		b.Fatal(err)
	}
	seed := rand.NewPCG(1, 1)
	fill := func(size int64) {
		value := make([]byte, 3<<10)
		for log.size() < size {
			recs := make([]*mapping.Record, 64)
			for i := range recs {
				_, _ = random{seed}.Read(value)
				recs[i] = mapping.JSON([]byte(`{"v":"` + base64.StdEncoding.EncodeToString(value) + `"}`))
			}
			if _, err := e.IngestBatch(b.Context(), "s", recs); err != nil {
				b.Fatal(err)
			}
		}
	}
	fill(*benchSize << 20 * 3 / 4)
	snapshot := filepath.Join(tmp, "snapshot")
	at, err := e.Snapshot(b.Context(), snapshot)
	if err != nil {
		b.Fatal(err)
	}
	store := checkpoint.New(dir.Staging(filepath.Join(tmp, "staging")), newOwners(), checkpoint.Options{})
	m, _, err := store.Save(b.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1, Number: at.Number}, nil)
	if err != nil {
		b.Fatal(err)
	}
	var size int64
	for _, f := range m.Files {
		size += f.Size
	}
	log.trim(at.Number)
	fill(*benchSize << 20 / 4)
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	if err := os.RemoveAll(snapshot); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(*benchSize << 20)
	options.Changelog = nil
	took := map[string]time.Duration{}
	step := func(name string, do func() error) {
		begin := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		took[name] += time.Since(begin)
	}
	for b.Loop() {
		fetched, adopted := filepath.Join(tmp, "fetched"), filepath.Join(tmp, "adopted")
		step("fetch", func() error { return store.Fetch(b.Context(), m, fetched) })
		step("replay", func() error {
			return forebay.Restore(adopted, fetched, func(yield func(buffer.LogBatch, error) bool) {
				for _, batch := range log.batches {
					if !yield(batch, nil) {
						return
					}
				}
			}, buffer.Tuning{})
		})
		step("open", func() (err error) {
			e, err = forebay.Open(adopted, options)
			return err
		})
		b.StopTimer()
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		for _, path := range []string{fetched, adopted} {
			if err := os.RemoveAll(path); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
	for name, d := range took {
		b.ReportMetric(d.Seconds()/float64(b.N), name+"-s/op")
	}
	b.ReportMetric(float64(size)/(1<<20), "checkpoint-MB")
}
