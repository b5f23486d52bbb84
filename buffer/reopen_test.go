package buffer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// The folder of the local level goes away under a running engine. Going on in a new folder would give ids a second time,
// and the target would take rows that were acknowledged for rows that it has already: so nothing is acknowledged then.
func TestVanishedFolderIsNotReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	mem := buffertest.NewMemory()
	opts := buffer.Options{Staging: mem, Target: mem, Tuning: buffer.Tuning{
		MemTableBytes: 1 << 20, Retry: buffer.Retry{Initial: time.Millisecond, Max: 20 * time.Millisecond},
	}}
	b, err := buffer.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = buffer.None })
	put(t, b, s, 0, 1)
	if err := b.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	var failed *buffer.FailedError
	pad := strings.Repeat("abcdefgh", 8<<10)
	for i := 1; i < 1000 && failed == nil; i++ { // until the log has to be rotated
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, pad), Count: 1})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
	}
	if failed == nil {
		t.Fatal("the store did not notice")
	}
	for i := range 100 { // over many attempts to reopen
		if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "after"), Count: 1}); err == nil {
			t.Fatal("rows were taken into a folder that is not there")
		}
		runtime.Gosched()
	}
	if err := b.Close(); err == nil {
		t.Error("Close does not say that the local level has failed")
	}
	// The folder is back: everything that was acknowledged in it is.
	_ = os.RemoveAll(dir)
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	again, err := buffer.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	put(t, again, define(t, again, "a"), 5000, 5001)
	if err := again.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, id := range ids(mem, "in.c-test.a") {
		if seen[id] {
			t.Errorf("row %s is there twice", id)
		}
		seen[id] = true
	}
	if !seen["0"] || !seen[fmt.Sprint(5000)] {
		t.Errorf("rows are missing: %d are there", len(seen))
	}
}
