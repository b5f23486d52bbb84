package forebay_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

// archived makes the source keep its raw records.
func archived(s *forebay.Source) { s.Archive = &forebay.ArchiveSettings{} }

// again is a source with a sink that stores the field n of each event and the time of its arrival.
func again(change ...func(*forebay.Source)) forebay.Source {
	s := forebay.Source{ID: "again", Sinks: []forebay.Sink{{ID: "rows", Table: forebay.Table{
		ID: "in.c-again.rows", Columns: mapping.Columns{mapping.Path("n", "n"), mapping.Datetime("at")},
	}}}}
	for _, f := range change {
		f(&s)
	}
	return s
}

func openArchive(t *testing.T, archive forebay.Archive, change ...func(*forebay.Options)) (*forebay.Engine, *buffertest.Memory) {
	t.Helper()
	return openMemory(t, append([]func(*forebay.Options){func(o *forebay.Options) { o.Archive = archive }}, change...)...)
}

// ingestN stores events with n from one number up to, but not including, a second number.
func ingestN(t *testing.T, e *forebay.Engine, from, to int) {
	t.Helper()
	var recs []*mapping.Record
	for i := from; i < to; i++ {
		recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"n":%d}`, i)))
	}
	if _, err := e.IngestBatch(t.Context(), "web", recs); err != nil {
		t.Fatal(err)
	}
}

// wantN checks that a table has each n from one number up to, but not including, a second number once, in their order.
func wantN(t *testing.T, mem *buffertest.Memory, from, to int) {
	t.Helper()
	rows := mem.Rows("in.c-again.rows")
	for i, row := range rows {
		if row[0] != fmt.Sprint(from+i) {
			t.Fatalf("row %d has %q, want %d", i, row[0], from+i)
		}
	}
	if len(rows) != to-from {
		t.Fatalf("got %d rows, want %d", len(rows), to-from)
	}
}

func objectText(t *testing.T, archive forebay.Archive, source string) string {
	t.Helper()
	objects, err := archive.Objects(t.Context(), source, time.Time{}, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	must(t, err)
	var all strings.Builder
	for _, name := range objects {
		rc, err := archive.Open(t.Context(), source, name)
		must(t, err)
		if _, err := io.Copy(&all, rc); err != nil {
			t.Fatal(err)
		}
		must(t, rc.Close())
	}
	return all.String()
}

const wholeArchive = `"received","head","body"
"2026-01-02T03:04:05.123456Z","{""v"":1,""header"":{""Content-Type"":[""application/json""],""X-Shop"":[""7"",""8""]},""removed"":[""Authorization""],""host"":""h"",""method"":""POST"",""path"":""/stream/1/web/***"",""query"":""a=1\u0026token=***"",""clientIP"":""192.0.2.1"",""received"":""2026-01-02T03:04:05.123456789Z""}","{""id"":1,
""user"":{""name"":""Ada""}}"
"2026-01-02T03:04:05.123456Z","{""v"":1,""signal"":""logs"",""document"":true,""received"":""2026-01-02T03:04:05.123456789Z""}","{""id"":2}"
`

// The archive has what came, without secrets, in the same batch as the rows, and is one more sink to the caller.
func TestArchiveKeepsRecords(t *testing.T) {
	archive := dir.Archive(t.TempDir(), dir.ArchiveOptions{})
	e, mem := openArchive(t, archive)
	mustDefine(t, e, events(archived, func(s *forebay.Source) {
		s.Secret, s.Sinks[0].AllowedSignals = "canary-source", []forebay.Signal{forebay.SignalTraces}
		s.KeepHeaders = []string{"X-Shop"}
	}))
	arrived := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	res, err := e.Ingest(t.Context(), "web", &mapping.Record{
		Body: []byte("{\"id\":1,\n\"user\":{\"name\":\"Ada\"}}"), Host: "h", ClientIP: netip.MustParseAddr("192.0.2.1"), Received: arrived,
		Header:  http.Header{"Content-Type": {"application/json"}, "X-Shop": {"7", "8"}, "Authorization": {"canary"}},
		Request: mapping.RequestLine{Method: "POST", Path: "/stream/1/web/canary-source", Query: "a=1&token=canary"},
	})
	if err != nil || len(res.Sinks) != 3 || res.Sinks[2].Sink != forebay.ArchiveSink || res.Sinks[2].Status != forebay.Stored {
		t.Fatalf("got %+v, %v, want 3 sinks, the last one the archive with the record stored", res, err)
	}
	telemetry := &mapping.Record{Document: mapping.From(map[string]any{"id": 2}).Document, Received: arrived}
	batch, err := e.IngestAtomic(t.Context(), "web", forebay.Batch{Signal: forebay.SignalLogs, Records: slices.Values([]*mapping.Record{telemetry})})
	if err != nil || batch.Sinks != 2 || batch.Rejected != 0 {
		t.Fatalf("got %+v, %v, want no error and batch.Sinks == 2 and batch.Rejected == 0", batch, err)
	}
	must(t, e.Flush(t.Context(), "web"))
	if text := objectText(t, archive, "web"); text != wholeArchive {
		t.Errorf("the archive has\n%s, want\n%s", text, wholeArchive)
	}
	if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
	// Nothing of it is in the target of the tables.
	if n := len(mem.Rows("web")); n != 0 {
		t.Errorf("the target has %d raw records", n)
	}
}

// The rows of an object of version 1 are read as they were written, by every later release.
func TestArchiveOfVersion1(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "archive", "v1.csv.gz"))
	must(t, err)
	root := t.TempDir()
	hour := filepath.Join(root, "web", "2026-01-02T03")
	must(t, os.MkdirAll(hour, 0o700))
	must(t, os.WriteFile(filepath.Join(hour, "f-1.csv.gz"), text, 0o600))
	e, mem := openArchive(t, dir.Archive(root, dir.ArchiveOptions{}))
	columns := mapping.Columns{
		mapping.Path("id", "id"), mapping.Template("shop", `Header("X-Shop", "none")`, mapping.RawString()), mapping.IP("ip"), mapping.Datetime("at"),
		mapping.Template("host", `Header("Host", "none")`, mapping.RawString()), mapping.Body("body"),
	}
	mustDefine(t, e, again(func(s *forebay.Source) {
		s.Sinks[0].Table.Columns, s.Sinks[0].AllowedSignals = columns, []forebay.Signal{forebay.SignalLogs}
		other := s.Sinks[0]
		other.ID, other.Table.ID, other.AllowedSignals = "traces", "in.c-again.traces", []forebay.Signal{forebay.SignalTraces}
		s.Sinks = append(s.Sinks, other)
	}))
	for _, sink := range []string{"rows", "traces"} {
		if _, err := e.Sink("again", sink).Replay(t.Context(), forebay.ReplayOptions{Run: "r", Archived: "web"}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, e.FlushAll(t.Context()))
	first := []string{"1", "7, 8", "192.0.2.1", "2026-01-02T03:04:05.123Z", "h", "{\"id\":1,\n\"user\":{\"name\":\"Ada\"}}"}
	second := []string{"2", "none", "", "2026-01-02T03:04:05.123Z", "none", `{"id":2}`}
	if rows := mem.Rows("in.c-again.rows"); len(rows) != 2 || !slices.Equal(rows[0], first) || !slices.Equal(rows[1], second) {
		t.Errorf("rows %q", rows)
	}
	if rows := mem.Rows("in.c-again.traces"); len(rows) != 1 || !slices.Equal(rows[0], first) {
		t.Errorf("rows of other signals %q", rows)
	}
}

// An archive that the engine no longer has gets its rows when it is there again.
func TestArchiveThatIsGone(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	on := func(o *forebay.Options) {
		o.Buffer, o.Staging = localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, disk), staging
	}
	archive := dir.Archive(t.TempDir(), dir.ArchiveOptions{})
	e, _ := openArchive(t, archive, on)
	mustDefine(t, e, events(archived, lenient))
	ingestN(t, e, 0, 5)
	must(t, e.Close())
	e, mem := openMemory(t, on)
	mustDefine(t, e, events(lenient))
	var held *buffer.HeldError
	if err := e.FlushAll(t.Context()); !errors.As(err, &held) || !strings.Contains(err.Error(), "Options.Archive") {
		t.Errorf("without the archive: %v", err)
	}
	if n := len(mem.Rows("web")); n != 0 {
		t.Errorf("the target has %d raw records", n)
	}
	must(t, e.Close())
	e, _ = openArchive(t, archive, on)
	must(t, e.FlushAll(t.Context()))
	if n := strings.Count(objectText(t, archive, "web"), `"{""n"":`); n != 5 {
		t.Errorf("the archive has %d records", n)
	}
}
