package buffer_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

func TestVolumeFree(t *testing.T) {
	memory, disk := buffertest.NewMemory(), disktest.New(t)
	disk.SetUsage(vfs.DiskUsage{AvailBytes: 300 << 20, TotalBytes: 1 << 30, UsedBytes: 724 << 20})
	b, err := buffer.Open("data", localdisk.On(buffer.Options{Staging: memory, Target: memory}, disk))
	must(t, err)
	defer closeBuffer(t, b)
	if free, err := b.VolumeFree(); err != nil || free != 300<<20 {
		t.Errorf("got %d bytes, %v, want %d, no error", free, err, 300<<20)
	}
	if got := b.Stats(); got.MaxPendingBytes != 64<<20 {
		t.Errorf("MaxPendingBytes is %d", got.MaxPendingBytes)
	}
}
