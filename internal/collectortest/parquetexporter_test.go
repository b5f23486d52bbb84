package collectortest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"go.opentelemetry.io/collector/pdata/plog"
)

// parquetTable is a folder with a Parquet file for each batch, compressed as drivers/parquet does by default.
type parquetTable struct {
	folder string
	dir    *os.File // open, to sync the names in it
	began  int64    // makes the names of a process its own
	made   atomic.Int64
	idle   sync.Pool // of *partMaker
}

// partMaker has the memory for a part.
type partMaker struct {
	rowBatch
	out *pq.GenericWriter[logRow]
}

func openParquetTable(folder string, _ int) (table, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	t := &parquetTable{folder: folder, dir: dir, began: time.Now().UnixNano()}
	t.idle.New = func() any {
		return &partMaker{out: pq.NewGenericWriter[logRow](nil, pq.Compression(&zstd.Codec{Level: zstd.SpeedFastest}))}
	}
	return t, nil
}

func (t *parquetTable) put(_ context.Context, batch plog.Logs) error {
	m, ok := t.idle.Get().(*partMaker)
	if !ok {
		return errors.New("no memory for a part")
	}
	defer t.idle.Put(m)
	name := filepath.Join(t.folder, fmt.Sprintf("%d-%d", t.began, t.made.Add(1)))
	if err := m.write(name+".tmp", batch); err != nil {
		return errors.Join(err, os.Remove(name+".tmp"))
	}
	if err := os.Rename(name+".tmp", name+".parquet"); err != nil {
		return err
	}
	return t.dir.Sync()
}

// write makes a file, and syncs it.
func (m *partMaker) write(path string, batch plog.Logs) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m.out.Reset(f)
	if _, err := m.out.Write(m.fill(batch)); err != nil {
		return err
	}
	if err := m.out.Close(); err != nil {
		return err
	}
	return f.Sync()
}

func (t *parquetTable) close() error { return t.dir.Close() }
