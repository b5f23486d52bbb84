package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// The disk damages the store while a file is imported in parts. Whatever is lost with it, no row is in the table or the quarantine twice, or in
// both, and no refused row is in the table. A file of which slices or the parts are lost is held, because its own id is ruled out.
func TestDamageWhileAFileIsSplit(t *testing.T) {
	const rows, places = 8, 12
	refused := func(i int) bool { return i == 5 }
	names := map[string]bool{"": true}
	done := map[string]bool{}
	for len(names) > len(done) {
		for name := range names {
			if done[name] {
				continue
			}
			done[name] = true
			for at := range places {
				if testing.Short() && at%4 > 0 {
					continue
				}
				withRefusing(t, -1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
					fs := disktest.New(t)
					opts = localdisk.On(opts, fs)
					mem.Before = func(_ context.Context, c buffertest.Call) error {
						if c.Op == buffertest.OpImport && len(mem.Rows(tableA)) > 0 {
							return errors.New("the target is away")
						}
						return nil
					}
					b := openAt(t, "data", opts)
					putRows(t, b, define(t, b, "a", quarantined(), smallSlices), rows, refused)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_ = b.Sink("a").Flush(ctx)
					cancel()
					closeBuffer(t, b)
					synctest.Wait() // for the attempt that was given up
					mem.Before = nil
					list, err := fs.List("data")
					must(t, err)
					for _, name := range list {
						if info, err := fs.Stat("data/" + name); err == nil && !info.IsDir() && info.Size() > 0 && name != "LOCK" && name != "forebay-format" {
							names[name] = true
						}
					}
					data, err := fs.Read("data/" + name)
					if name == "" || err != nil || len(data) == 0 {
						return
					}
					fs.Rot("data/"+name, at*(len(data)-1)/(places-1))
					if b, err = buffer.Open("data", opts); err != nil {
						t.Fatalf("open with damage in %s: %v", name, err)
					}
					define(t, b, "a", quarantined(), smallSlices)
					ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
					_ = b.Sink("a").Flush(ctx)
					cancel()
					count := map[string]int{}
					for _, id := range ids(mem, tableA) {
						if count[id]++; id == "5" {
							t.Error("the refused row is in the table")
						}
					}
					for _, r := range keptIDs(t, b) {
						count[r]++
					}
					for id, n := range count {
						if n > 1 {
							t.Errorf("row %s is %d times in the table and the quarantine", id, n)
						}
					}
					closeBuffer(t, b)
					if t.Failed() {
						t.Fatalf("damage in %s at place %d of %d", name, at, places)
					}
				})
			}
		}
	}
}

// keptIDs returns the ids of the rows in the quarantine.
func keptIDs(t *testing.T, b *buffer.Buffer) (kept []string) {
	t.Helper()
	for _, r := range list(t, b, "a") {
		if _, record, _, err := b.Sink("a").RejectedRecord(t.Context(), r.ID); err == nil {
			n := 0
			_, _ = fmt.Sscanf(string(record), `"%d"`, &n)
			kept = append(kept, fmt.Sprint(n))
		}
	}
	return kept
}
