package otlpflat_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// logBatch has 100 records with bodies of the given size, as a service writes them.
func logBatch(size int) plog.Logs {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	a := rl.Resource().Attributes()
	a.PutStr("service.name", "checkout")
	a.PutStr("service.version", "2.14.3")
	a.PutStr("host.name", "ip-10-3-7-21")
	a.PutStr("deployment.environment.name", "production")
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("checkout/http")
	for i := range 100 {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(testTime)
		r.SetObservedTimestamp(testTime)
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		text := fmt.Sprintf("GET /api/v1/orders/%d finished with status 200 ", 100_000+i)
		r.Body().SetStr(text + strings.Repeat("x", size-len(text)))
		r.SetTraceID(testTraceID)
		r.SetSpanID(testSpanID)
		r.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
		r.Attributes().PutInt("http.response.status_code", 200)
		r.Attributes().PutDouble("duration_ms", 12.75)
	}
	return batch
}

var logColumns = mapping.Columns{
	mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("message", "body", mapping.RawString()),
	mapping.Path("severity", "severity_text", mapping.RawString()),
	mapping.Path("route", `attributes["http.route"]`, mapping.RawString()),
}

func BenchmarkFlatten(b *testing.B) {
	for _, size := range []int{150, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			batch := logBatch(size)
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				out = out[:0]
				for doc := range otlpflat.Logs(batch) {
					out, _ = doc.AppendJSON(out)
				}
			}
			b.SetBytes(int64(len(out)))
		})
	}
}

func BenchmarkMap(b *testing.B) {
	for _, c := range []struct {
		columns string
		cols    mapping.Columns
		size    int
	}{{"5", logColumns, 150}, {"5", logColumns, 1024}, {"table", otlpflat.LogsTable(), 150}} {
		b.Run(fmt.Sprintf("columns=%s/body=%d", c.columns, c.size), func(b *testing.B) {
			batch := logBatch(c.size)
			m, err := mapping.Compile(c.cols, mapping.Options{Limits: datatype.Limits{UTF8: true, MaxCell: 1 << 30}}) // as of Parquet
			if err != nil {
				b.Fatal(err)
			}
			var out []byte
			var rec mapping.Record
			b.ReportAllocs()
			for b.Loop() {
				out = out[:0]
				for doc := range otlpflat.Logs(batch) {
					rec.Reset()
					rec.Document = doc
					if out, err = m.AppendRow(out, &rec); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{150, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			data, err := (&plog.ProtoMarshaler{}).MarshalLogs(logBatch(size))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
		})
	}
}

// BenchmarkEncoded reads, and maps, an encoded request, with pdata and without.
func BenchmarkEncoded(b *testing.B) {
	data := encode(b, logBatch(150))
	m, err := mapping.Compile(otlpflat.LogsTable(), mapping.Options{Limits: datatype.Limits{UTF8: true, MaxCell: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func() iter.Seq[mapping.FieldDocument]{
		"pdata": func() iter.Seq[mapping.FieldDocument] {
			batch, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(data)
			if err != nil {
				b.Fatal(err)
			}
			return otlpflat.Logs(batch)
		},
		"in place": func() iter.Seq[mapping.FieldDocument] {
			docs, _, ok := otlpflat.EncodedLogs(data)
			if !ok {
				b.Fatal("unusual")
			}
			return docs
		},
	} {
		b.Run(name, func(b *testing.B) {
			var out []byte
			var rec mapping.Record
			b.ReportAllocs()
			for b.Loop() {
				out = out[:0]
				for doc := range read() {
					rec.Reset()
					rec.Document = doc
					if out, err = m.AppendRow(out, &rec); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
		})
	}
}

// Records cost no memory beyond the buffers of the caller. Allocations are per batch.
func TestAllocations(t *testing.T) {
	batch := logBatch(150)
	m, err := mapping.Compile(append(logColumns, mapping.Body("all")), mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	rec := new(mapping.Record)
	n := testing.AllocsPerRun(20, func() {
		out = out[:0]
		for doc := range otlpflat.Logs(batch) {
			rec.Reset()
			rec.Document = doc
			if out, err = m.AppendRow(out, rec); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 30 {
		t.Errorf("got %v allocations for a batch of 100 records, want at most 30", n)
	}
}
