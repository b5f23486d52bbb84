package stream_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

const (
	protobuf = "application/x-protobuf"
	jsonBody = "application/json"
)

// telemetry is an OTLP source with one sink for each signal and one that takes everything.
func telemetry() forebay.Source {
	sink := func(signal forebay.Signal, path string) forebay.Sink {
		return forebay.Sink{
			ID:             string(signal),
			Table:          forebay.Table{ID: "in.c-app." + string(signal), Columns: mapping.Columns{mapping.Path("v", path, mapping.RawString())}},
			AllowedSignals: []forebay.Signal{signal},
		}
	}
	return forebay.Source{ID: "app", Type: forebay.OTLP, Secret: webSecret, Sinks: []forebay.Sink{
		sink(forebay.SignalLogs, "body"), sink(forebay.SignalMetrics, "metric_name"), sink(forebay.SignalTraces, "name"),
		{ID: "all", Table: forebay.Table{ID: "in.c-app.all", Columns: mapping.Columns{mapping.Body("body"), mapping.Headers("headers")}}},
	}}
}

func logs(bodies ...string) plog.Logs {
	batch := plog.NewLogs()
	records := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, b := range bodies {
		r := records.AppendEmpty()
		r.SetTimestamp(1)
		r.Body().SetStr(b)
	}
	return batch
}

// exports encodes one record of each signal, named by the signal.
func exports(t *testing.T, enc string) map[forebay.Signal][]byte {
	t.Helper()
	metrics := pmetric.NewMetrics()
	m := metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("metrics")
	m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(1)
	traces := ptrace.NewTraces()
	span := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName("traces")
	span.SetStartTimestamp(1)
	span.SetTraceID([16]byte{1})
	span.SetSpanID([8]byte{1})

	out := make(map[forebay.Signal][]byte)
	keep := func(signal forebay.Signal, data []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out[signal] = data
	}
	if enc == jsonBody {
		data, err := (&plog.JSONMarshaler{}).MarshalLogs(logs("logs"))
		keep(forebay.SignalLogs, data, err)
		data, err = (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
		keep(forebay.SignalMetrics, data, err)
		data, err = (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		keep(forebay.SignalTraces, data, err)
		return out
	}
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs("logs"))
	keep(forebay.SignalLogs, data, err)
	data, err = (&pmetric.ProtoMarshaler{}).MarshalMetrics(metrics)
	keep(forebay.SignalMetrics, data, err)
	data, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
	keep(forebay.SignalTraces, data, err)
	return out
}

func compress(t *testing.T, coding string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch coding {
	case "":
		return data
	case "gzip":
		w := gzip.NewWriter(&b)
		if _, err := w.Write(data); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	case "deflate", "zlib":
		w := zlib.NewWriter(&b)
		if _, err := w.Write(data); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	case "lz4": // a frame of one block that is stored as it is
		b.WriteString("\x04\x22\x4d\x18\x60\x40\x82")
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(data))|1<<31))
		b.Write(data)
		b.Write(make([]byte, 4))
	case "snappy":
		return snappy.Encode(nil, data)
	case "x-snappy-framed":
		w := snappy.NewBufferedWriter(&b)
		if _, err := w.Write(data); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	case "zstd":
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// export sends a request. header has names and values in turn.
func (s *service) export(path string, body []byte, header ...string) (int, http.Header, string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
	}
	return resp.StatusCode, resp.Header, string(answer)
}

// tables returns the number of rows of each table of the source.
func (s *service) tables() map[string]int {
	s.t.Helper()
	if err := s.eng.Flush(s.t.Context(), "app"); err != nil {
		s.t.Fatal(err)
	}
	n := make(map[string]int)
	for _, name := range []string{"logs", "metrics", "traces", "all"} {
		n[name] = len(s.mem.Rows("in.c-app." + name))
	}
	return n
}

// field encodes a field of wire type 2.
func field(number byte, content []byte) []byte {
	return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
}

// readStatus reads a google.rpc.Status.
func readStatus(t *testing.T, b []byte) (code uint64, message string) {
	t.Helper()
	if len(b) < 4 || b[0] != 1<<3 {
		t.Fatalf("not a status: %x", b)
	}
	code, n := binary.Uvarint(b[1:])
	b = b[1+n:]
	size, n := binary.Uvarint(b[1:])
	if b[0] != 2<<3|2 || int(size) != len(b)-1-n {
		t.Fatalf("not a status: %x", b)
	}
	return code, string(b[1+n:])
}
