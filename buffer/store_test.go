package buffer_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// A sync is much cheaper where the blocks of the file exist already. So the log must not grow new files forever. After
// the first few it writes over those whose rows are in tables of the store or gone.
func TestLogFilesAreRecycled(t *testing.T) {
	if testing.Short() {
		t.Skip("it counts bytes")
	}
	fs := &logCounter{FS: disktest.New(t)}
	opts := memoryOptions(t, buffertest.NewMemory())
	opts = localdisk.On(opts, fs)
	b := open(t, opts)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	value := strings.Repeat("x", 100<<10)
	for i := range 300 { // 30 MB through a write buffer of 1 MB
		mustStore(t, b, buffer.Rows{Sink: s, Data: row(i, value), Count: 1})
	}
	created, recycled := fs.created.Load(), fs.recycled.Load()
	t.Logf("%d log files were made, %d were written over", created, recycled)
	if recycled < 10 || created > recycled {
		t.Errorf("%d log files were made and %d written over", created, recycled)
	}
}

// Rows that wait for their upload go from the log to tables of the store. They are deleted when they are uploaded, so
// merging those tables with others would write the rows again for nothing.
func TestRowsThatWaitAreWrittenToTablesOnce(t *testing.T) {
	mem := buffertest.NewMemory()
	mem.Before = func(ctx context.Context, c buffertest.Call) error {
		<-ctx.Done()
		return ctx.Err()
	}
	fs := &tableCounter{FS: disktest.New(t)}
	opts := memoryOptions(t, mem)
	opts = localdisk.On(opts, fs)
	b := open(t, opts)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = driver.None })
	const rows, size = 150, 100 << 10 // through a write buffer of 1 MB
	letters := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, size)
	for i := range rows {
		for k := range value {
			value[k] = 'A' + byte(letters.IntN(58)) // the store compresses little of it
		}
		put1(t, b, s, i, strings.ReplaceAll(string(value), `"`, "-"))
	}
	// Merges that have not finished are not in the count. They could only raise it.
	if per := float64(fs.bytes.Load()) / (rows * size); per > 1.2 {
		t.Errorf("%.2f bytes of tables are written for each byte that waits, want at most 1.2", per)
	} else {
		t.Logf("%.2f bytes of tables for each byte that waits", per)
	}
}

// Short-lived slices leave their deletions, and the records of slices and files, among the tables of the live
// slices. Only these leavings may be merged, however much waits, because a table with records and rows would span all later
// writes.
func TestSlicesThatComeAndGoAreWrittenToTablesOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it counts bytes")
	}
	const slices, perSlice, size, live = 100, 20, 20 << 10, 40 // 16 MB wait for a write buffer of 1 MB
	may := make(chan struct{}, slices)
	mem := buffertest.NewMemory()
	mem.Before = func(ctx context.Context, c buffertest.Call) error {
		if c.Op != buffertest.OpPut {
			return nil
		}
		select {
		case <-may:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fs := &tableCounter{FS: disktest.New(t)}
	opts := memoryOptions(t, mem)
	opts = localdisk.On(opts, fs)
	b := open(t, opts)
	s := define(t, b, "a", func(c *buffer.SinkConfig) {
		c.Encoding = driver.None
		c.Upload.Count = perSlice
	})
	letters := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, size)
	for i := range slices * perSlice {
		for k := range value {
			value[k] = 'a' + byte(letters.IntN(26)) // the store compresses a third of it
		}
		put1(t, b, s, i, string(value))
		if i%perSlice == 0 && i/perSlice >= live {
			may <- struct{}{}
		}
	}
	per := float64(fs.bytes.Load()) / (slices * perSlice * size)
	t.Logf("%.2f bytes of tables for each byte", per)
	if per > 1.4 { // 2.4 where chunks and records share tables, and tables are as large as a flush
		t.Errorf("%.2f bytes of tables are written for each byte of slices that come and go, want at most 1.4", per)
	}
	for range live {
		may <- struct{}{} // for Close
	}
}

type tableCounter struct {
	vfs.FS
	bytes atomic.Int64
}

func (c *tableCounter) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &countedFile{f, c}, nil
}

type countedFile struct {
	vfs.File
	counter *tableCounter
}

func (f *countedFile) Write(p []byte) (int, error) {
	f.counter.bytes.Add(int64(len(p)))
	return f.File.Write(p)
}

type logCounter struct {
	vfs.FS
	created, recycled atomic.Int64
}

func (c *logCounter) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".log") {
		c.created.Add(1)
	}
	return c.FS.Create(name, category)
}

func (c *logCounter) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".log") {
		c.recycled.Add(1)
	}
	return c.FS.ReuseForWrite(old, name, category)
}
