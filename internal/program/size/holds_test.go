package size

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/mapping"
)

// An engine whose table is away accepts at least the rows that the formula promises, and refuses soon after.
func TestFormulaHolds(t *testing.T) {
	for sinks, maxDisk := range map[int]int64{1: 32 << 20, 8: 128 << 20} {
		t.Run(fmt.Sprint(sinks), func(t *testing.T) {
			if sinks > 1 && !casetest.All() {
				t.Skip("it fills 128 MiB, which takes 10 s: the stage cases of CI does")
			}
			data := filepath.Join(t.TempDir(), "data")
			mem := buffertest.NewMemory()
			mem.Before = func(_ context.Context, c buffertest.Call) error {
				if c.Op == buffertest.OpImport {
					return errors.New("the table is away")
				}
				return nil
			}
			eng, err := forebay.Open(data, forebay.Options{
				Target: mem, Staging: dir.Staging(filepath.Join(data, "staging")), Buffer: buffer.Tuning{MaxDiskBytes: maxDisk},
				Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close()
			for n := range sinks {
				err := eng.Define(t.Context(), forebay.Source{ID: fmt.Sprint("s", n), Sinks: []forebay.Sink{{
					ID: "events", Table: forebay.Table{ID: fmt.Sprint("t", n), Columns: mapping.Columns{mapping.Path("text", "text", mapping.RawString())}},
				}}})
				if err != nil {
					t.Fatal(err)
				}
			}
			random := rand.NewChaCha8([32]byte{1})
			// A call waits while the store gives room back, as a client that gets 503 does.
			patient := eng.WaitForRoom()
			raw, rows := make([]byte, 6<<10), 0
			for ; err == nil; rows++ {
				_, _ = random.Read(raw)
				event := fmt.Appendf(nil, `{"text":%q}`, base64.StdEncoding.EncodeToString(raw))
				wait, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				_, err = patient.Ingest(wait, fmt.Sprint("s", rows%sinks), mapping.JSON(event))
				cancel()
			}
			rows-- // the last one was refused
			t.Logf("the refusal: %v", err)
			if err := eng.Close(); err != nil {
				t.Fatal(err)
			}
			r, _ := run(t, "-max-disk-bytes", fmt.Sprint(maxDisk), "-rate", "1", data) // at one row a second the outage in seconds is the number of rows
			promised := int(r.Disk.Lasts / time.Second)
			t.Logf("%d rows were accepted, %d are promised; the limit is %s, %d bytes are in use", rows, promised, r.Disk.Limit, r.InUse)
			if rows < promised || rows > promised*7/5 {
				t.Errorf("%d rows were accepted, %d are promised", rows, promised)
			}
			if r.InUse < maxDisk/2 || r.InUse > maxDisk*11/10 {
				t.Errorf("%d bytes are in use of %d", r.InUse, maxDisk)
			}
		})
	}
}
