package buffer_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// A sync is much cheaper where the blocks of the file exist already. So the log must not grow new files for ever: after
// the first few it writes over those whose rows are in tables of the store or gone.
func TestLogFilesAreRecycled(t *testing.T) {
	fs := &logCounter{FS: vfs.NewMem()}
	opts := memoryOptions(buffertest.NewMemory())
	opts.FS = fs
	b := open(t, opts)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = buffer.None })
	value := strings.Repeat("x", 100<<10)
	for i := range 300 { // 30 MB through a write buffer of 1 MB
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, value), Count: 1})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	created, recycled := fs.created.Load(), fs.recycled.Load()
	t.Logf("%d log files were made, %d were written over", created, recycled)
	if recycled < 10 || created > recycled {
		t.Errorf("%d log files were made and %d written over", created, recycled)
	}
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
