package pebblestore_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

// slowCopies is a disk on which something happens after the first part of a log was read.
type slowCopies struct {
	vfs.FS
	meanwhile func()
}

func (d *slowCopies) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.Open(name, opts...)
	if err == nil && strings.HasSuffix(name, ".log") && d.meanwhile != nil {
		f = &slowCopy{File: f, meanwhile: sync.OnceFunc(d.meanwhile)}
	}
	return f, err
}

type slowCopy struct {
	vfs.File
	meanwhile func()
}

func (f *slowCopy) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.meanwhile()
	return n, err
}

// A checkpoint concurrent with commits is whole because it excludes their writes during the copy of the log, both over zeros that were
// written ahead and over the rest of an earlier log.
func TestCheckpointBesideCommits(t *testing.T) {
	for name, rows := range map[string]int{"over zeros": 1, "over an earlier log": 100} {
		t.Run(name, func(t *testing.T) {
			disk := &slowCopies{FS: disktest.New(t)}
			must(t, disk.MkdirAll("data", 0o700))
			c := config(disk)
			c.FillLogs = true
			o, err := pebblestore.Open(c)
			must(t, err)
			defer o.Close()
			next := 0
			put := func(n, size int) {
				for range n {
					if err := o.DB.Set(fmt.Appendf(nil, "key %05d", next), bytes.Repeat([]byte("v"), size), pebble.Sync); err != nil {
						t.Error(err)
					}
					next++
				}
			}
			for _, n := range []int{rows, 1} { // the third log is written over the first
				put(n, 2000)
				must(t, o.DB.Flush())
			}
			put(3, 100)
			before := next
			disk.meanwhile = func() { put(100, 1000) }
			must(t, o.Checkpoint("copy", nil))
			if next == before {
				t.Fatal("no commit was made during the checkpoint")
			}
			disk.meanwhile = nil
			c.Dir = "copy"
			copied, err := pebblestore.Open(c)
			must(t, err)
			defer copied.Close()
			for i := range next {
				value, err := pebblestore.Get(copied.DB, fmt.Appendf(nil, "key %05d", i))
				if err != nil || (value != nil) != (i < before) {
					t.Errorf("key %d of %d: value of %d bytes, error %v", i, before, len(value), err)
				}
			}
		})
	}
}
