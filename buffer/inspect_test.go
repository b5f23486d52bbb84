package buffer_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

func TestInspect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	if _, err := buffer.Inspect(dir, buffer.InspectOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("inspect of nothing: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("the folder was created")
	}
	mem := buffertest.NewMemory()
	mem.Before = failWhile(nil, driver.Permanent(errors.New("not yet")), buffertest.OpImport)
	b := openAt(t, dir, diskOptions(mem))
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Table.Columns = datatype.UntypedColumns("id", `the "value"`) })
	put(t, b, s, 0, 3)
	var held *buffer.HeldError
	if err := b.Sink("a").Flush(t.Context()); !errors.As(err, &held) {
		t.Fatalf("flush: %v", err)
	}
	put(t, b, s, 3, 5)
	var inUse *buffer.InUseError
	if _, err := buffer.Inspect(dir, buffer.InspectOptions{}); !errors.As(err, &inUse) {
		t.Fatalf("inspect of a running engine: %v", err)
	}
	closeBuffer(t, b)

	before := snapshot(t, dir)
	i, err := buffer.Inspect(dir, buffer.InspectOptions{Staging: mem})
	must(t, err)
	st := i.Stats().Sinks[0]
	if st.Accepted != 5 || st.Local.Rows != 2 || st.Staging.Rows != 3 || len(st.Files) != 2 || st.Files[0].RetryReason != "not yet" {
		t.Errorf("stats are %+v", st)
	}
	list := i.Slices()
	if len(list) != 2 || list[0].State != buffer.SliceUploaded || list[1].State != buffer.SliceWriting || list[0].Level.Rows != 3 {
		t.Errorf("slices are %+v", list)
	}
	next := i.NextSlice()
	if engine, _, _ := strings.Cut(next, "-s"); next <= list[1].ID || !strings.HasPrefix(list[1].ID, engine+"-s") || len(next) != len(list[1].ID) {
		t.Errorf("the next slice is %s, the last one %s", next, list[1].ID)
	}
	report, err := i.Verify(t.Context())
	if err != nil || !report.OK() || report.Sinks[0].Local != 2 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	for n, want := range []string{
		"\"id\",\"the \"\"value\"\"\"\n\"0\",\"v\"\n\"1\",\"v\"\n\"2\",\"v\"\n",
		"\"id\",\"the \"\"value\"\"\"\n\"3\",\"v\"\n\"4\",\"v\"\n",
	} {
		var out bytes.Buffer
		if err := i.WriteRows(t.Context(), &out, list[n].ID); err != nil || out.String() != want {
			t.Errorf("rows of slice %d: %q, %v", n, out.String(), err)
		}
	}
	if err := i.WriteRows(t.Context(), io.Discard, "no-such"); err == nil {
		t.Error("an unknown slice was exported")
	}
	must(t, i.Close())
	after := snapshot(t, dir)
	lock := filepath.Join(dir, "LOCK")
	after[lock] = before[lock] // taking it changes its time
	wantUntouched(t, before, after)
}
