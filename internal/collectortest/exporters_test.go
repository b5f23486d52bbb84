package collectortest

import (
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/datatype"
)

// oddLogs has records with all that can be set, with nothing but the observed time, and with values of each kind. Each has another body, so that rows differ.
func oddLogs() plog.Logs {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	rl.SetSchemaUrl("https://example.com/resource")
	rl.Resource().Attributes().PutStr("service.name", `the "shop"`)
	rl.Resource().Attributes().PutInt("process.pid", 42)
	sl := rl.ScopeLogs().AppendEmpty()
	sl.SetSchemaUrl("https://example.com/scope")
	sl.Scope().SetName("orders")
	sl.Scope().SetVersion("1.2")
	sl.Scope().Attributes().PutBool("beta", true)
	full := sl.LogRecords().AppendEmpty()
	full.SetTimestamp(pcommon.Timestamp(began + 123_456_789))
	full.SetObservedTimestamp(pcommon.Timestamp(began + 987_654_321))
	full.SetTraceID(pcommon.TraceID{1, 15: 2})
	full.SetSpanID(pcommon.SpanID{3, 7: 4})
	full.SetFlags(1)
	full.SetSeverityNumber(plog.SeverityNumberError)
	full.SetSeverityText("ERROR")
	full.SetEventName("declined")
	full.Body().SetStr("a line,\n\nand \"another\" — with 日本語\\")
	full.Attributes().PutStr("quoted", "\"\\\n")
	full.Attributes().PutInt("n", -1)
	full.Attributes().PutDouble("ratio", 0.25)
	full.Attributes().PutBool("ok", false)
	list := full.Attributes().PutEmptySlice("list")
	list.AppendEmpty().SetInt(1)
	list.AppendEmpty().SetStr("b")
	full.Attributes().PutEmptyMap("map").PutStr("k", "v")
	plain := sl.LogRecords().AppendEmpty()
	plain.SetTimestamp(pcommon.Timestamp(began))
	plain.Body().SetEmptyMap().PutStr("key", "value")

	rl = batch.ResourceLogs().AppendEmpty()
	records := rl.ScopeLogs().AppendEmpty().LogRecords()
	records.AppendEmpty()
	records.AppendEmpty().Body().SetStr("")
	records.AppendEmpty().Body().SetInt(7)
	for _, r := range records.All() { // a record without any time would have the time of receipt
		r.SetObservedTimestamp(pcommon.Timestamp(began))
	}
	return batch
}

// The exporters of this package store the rows that Forebay stores, in columns of the same types, so that the benchmark compares the same work.
func TestExporters(t *testing.T) {
	for _, kind := range []string{toParquet, toPostgres} {
		t.Run(kind, func(t *testing.T) {
			batch := oddLogs()
			sample().ResourceLogs().MoveAndAppendTo(batch.ResourceLogs())
			request, want := encoded(t, batch), batch.LogRecordCount()

			p := newPlace(t, kind)
			s := startForebay(t, p)
			if err := connect(t, s.addr)(request); err != nil {
				t.Fatal(err)
			}
			if rows := s.flush(); rows != int64(want) {
				t.Fatalf("Forebay has stored %d rows of %d", rows, want)
			}
			s.wait()
			columns := p.columns()
			ours, schemas := p.rows(columns), p.schemas()

			p = newPlace(t, kind)
			p.create()
			stored := newTally(int64(want))
			c := startCollector(t, stored, kind, t.TempDir(), p.where)
			if err := connect(t, c.addr)(request); err != nil {
				t.Fatalf("got %v\n%s\nwant no error", err, &c.logs)
			}
			stored.wait(c)
			for i, c := range columns {
				if c.Type == datatype.JSON {
					columns[i].Type = datatype.String // see logRow
				}
			}
			theirs := p.rows(columns)

			if len(ours) != want || p.count() != int64(want) {
				t.Fatalf("Forebay has %d rows, the exporter %d, want %d", len(ours), p.count(), want)
			}
			for i := range want {
				if ours[i] != theirs[i] {
					t.Errorf("Forebay has the row\n%s\nthe exporter\n%s", ours[i], theirs[i])
				}
			}
			for i, schema := range schemas {
				schemas[i] = strings.ReplaceAll(schema, "(JSON)", "(STRING)")
			}
			if got := p.schemas(); !slices.Equal(got, schemas) {
				t.Errorf("the columns of Forebay are\n%s\nof the exporter\n%s", strings.Join(schemas, "\n"), strings.Join(got, "\n"))
			}
		})
	}
}
