package buffer_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var columns = datatype.UntypedColumns("id", "value")

// open opens a buffer that is closed with the test.
func open(t *testing.T, opts buffer.Options) *buffer.Buffer {
	t.Helper()
	b, err := buffer.Open("data", opts)
	must(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// uncountedOptions work on a disk in memory, which does not report blocks: MaxDiskBytes then bounds the bytes of the rows alone.
func uncountedOptions(t testing.TB, mem *buffertest.Memory) buffer.Options {
	return localdisk.On(memoryOptions(t, mem), disktest.Mem(t))
}

func memoryOptions(t testing.TB, mem *buffertest.Memory) buffer.Options {
	return localdisk.On(buffer.Options{Staging: mem, Target: mem, Tuning: buffer.Tuning{MemTableBytes: 1 << 20}}, disktest.New(t))
}

func define(t *testing.T, b *buffer.Buffer, id string, change ...func(*buffer.SinkConfig)) *buffer.DefinedSink {
	t.Helper()
	c := buffer.SinkConfig{ID: id, Table: driver.Table{ID: "in.c-test." + id, Columns: columns}, Encoding: driver.Gzip}
	for _, f := range change {
		f(&c)
	}
	s, err := b.Define(t.Context(), c)
	must(t, err)
	return s
}

// row encodes one row of the test table.
func row(id int, value string) []byte {
	return fmt.Appendf(nil, "\"%d\",\"%s\"\n", id, strings.ReplaceAll(value, `"`, `""`))
}

// put appends rows from, from+1, …, to-1, one a call, and waits for the last.
func put(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "v"), Count: 1})
		must(t, err)
		if i == to-1 {
			must(t, ticket.Wait(t.Context()))
		}
	}
}

// ids returns the first cells of a table in order.
func ids(mem *buffertest.Memory, table string) []string {
	var out []string
	for _, r := range mem.Rows(table) {
		out = append(out, r[0])
	}
	return out
}

func wantIDs(t *testing.T, mem *buffertest.Memory, table string, from, to int) {
	t.Helper()
	got := ids(mem, table)
	if len(got) != to-from {
		t.Fatalf("table %s has %d rows, want %d", table, len(got), to-from)
	}
	for i, id := range got {
		if id != fmt.Sprint(from+i) {
			t.Fatalf("row %d of table %s has id %s, want %d", i, table, id, from+i)
		}
	}
}

func verify(t *testing.T, b *buffer.Buffer) {
	t.Helper()
	report, err := b.Verify(t.Context())
	must(t, err)
	if !report.OK() {
		t.Fatalf("the ledger does not hold: %+v", report)
	}
}

// state renders the state of a sink that a story can see.
func state(b *buffer.Buffer, id string) string {
	st, _ := b.Sink(id).Stats()
	var files []string
	for _, f := range st.Files {
		files = append(files, fmt.Sprintf("%s/%s", f.State, f.Reason))
	}
	return fmt.Sprintf("accepted %d local %d staging %d target %d expired %d files %v",
		st.Accepted, st.Local.Rows, st.Staging.Rows, st.Target.Rows, st.Expired.Rows, files)
}

// openAt is open in another folder, for tests that close the buffer themselves.
func openAt(t *testing.T, dir string, opts buffer.Options) *buffer.Buffer {
	t.Helper()
	b, err := buffer.Open(dir, opts)
	must(t, err)
	t.Cleanup(func() { _ = b.Close() }) // after a failure, so that the bubble ends
	return b
}

// wantAll checks that the table has the rows from, …, to-1, each once. Files may overtake each other.
func wantAll(t *testing.T, mem *buffertest.Memory, table string, from, to int) {
	t.Helper()
	got := ids(mem, table)
	slices.Sort(got)
	if n := len(slices.Compact(slices.Clone(got))); n != len(got) || n != to-from {
		t.Fatalf("table %s has %d rows, %d of them different, want %d", table, len(got), n, to-from)
	}
	for i := from; i < to; i++ {
		if !slices.Contains(got, fmt.Sprint(i)) {
			t.Fatalf("row %d is not in table %s", i, table)
		}
	}
}

func closeBuffer(t *testing.T, b *buffer.Buffer) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func flush(t *testing.T, b *buffer.Buffer, sink string) {
	t.Helper()
	must(t, b.Sink(sink).Flush(t.Context()))
}

// snapshot reads a folder of the real disk.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[path] += " " + info.ModTime().String() + string(data)
		}
		return nil
	})
	must(t, err)
	return all
}

func wantUntouched(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path := range after {
		if before[path] != after[path] {
			t.Errorf("%s was changed or created", path)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			t.Errorf("%s was removed", path)
		}
	}
}

// diskOptions work on the real disk.
func diskOptions(mem *buffertest.Memory) buffer.Options {
	return buffer.Options{Staging: mem, Target: mem, Tuning: buffer.Tuning{MemTableBytes: 1 << 20}}
}

func put1(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, id int, value string) {
	t.Helper()
	mustStore(t, b, buffer.Rows{Sink: s, Data: row(id, value), Count: 1})
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}

// mustStore appends rows and waits until they are stored.
func mustStore(t testing.TB, b *buffer.Buffer, rows ...buffer.Rows) {
	t.Helper()
	ticket, err := b.Append(t.Context(), time.Now(), rows...)
	must(t, err)
	must(t, ticket.Wait(t.Context()))
}

// failWhile returns a hook of a Memory that fails the operations while on reports true, or always if on is nil.
func failWhile(on func() bool, err error, ops ...buffertest.Op) func(context.Context, buffertest.Call) error {
	return func(_ context.Context, c buffertest.Call) error {
		if slices.Contains(ops, c.Op) && (on == nil || on()) {
			return err
		}
		return nil
	}
}
