package otlp_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/otlp"
)

var signals = []forebay.Signal{forebay.SignalLogs, forebay.SignalMetrics, forebay.SignalTraces}

// full returns a request of every signal that contains all kinds of messages, in both encodings.
func full(tb testing.TB) map[forebay.Signal][2][]byte {
	tb.Helper()
	attributes := func(m pcommon.Map) {
		m.PutStr("s", `a "quoted" text`)
		m.PutInt("i", -1)
		m.PutEmptySlice("l").AppendEmpty().SetEmptyMap().PutDouble("d", 0.5)
		m.PutEmptyBytes("b").FromRaw([]byte{1, 2})
	}
	out := make(map[forebay.Signal][2][]byte)
	keep := func(signal forebay.Signal, proto []byte, err error, text []byte, err2 error) {
		if err := errors.Join(err, err2); err != nil {
			tb.Fatal(err)
		}
		out[signal] = [2][]byte{otlp.Protobuf: proto, otlp.JSON: text}
	}

	logs := plog.NewLogs()
	rl := logs.ResourceLogs().AppendEmpty()
	attributes(rl.Resource().Attributes())
	sl := rl.ScopeLogs().AppendEmpty()
	attributes(sl.Scope().Attributes())
	for range 3 {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(1)
		r.SetSeverityNumber(9)
		attributes(r.Body().SetEmptyMap())
		attributes(r.Attributes())
	}
	p, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs)
	j, err2 := (&plog.JSONMarshaler{}).MarshalLogs(logs)
	keep(forebay.SignalLogs, p, err, j, err2)

	traces := ptrace.NewTraces()
	rs := traces.ResourceSpans().AppendEmpty()
	attributes(rs.Resource().Attributes())
	s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	s.SetName("n")
	s.SetStartTimestamp(1)
	attributes(s.Attributes())
	attributes(s.Events().AppendEmpty().Attributes())
	attributes(s.Links().AppendEmpty().Attributes())
	s.Status().SetMessage("m")
	p, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
	j, err2 = (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	keep(forebay.SignalTraces, p, err, j, err2)

	metrics := pmetric.NewMetrics()
	rm := metrics.ResourceMetrics().AppendEmpty()
	attributes(rm.Resource().Attributes())
	ms := rm.ScopeMetrics().AppendEmpty().Metrics()
	add := func() pmetric.Metric {
		m := ms.AppendEmpty()
		m.SetName("name")
		attributes(m.Metadata())
		return m
	}
	n := add().SetEmptyGauge().DataPoints().AppendEmpty()
	n.SetDoubleValue(1)
	attributes(n.Attributes())
	attributes(n.Exemplars().AppendEmpty().FilteredAttributes())
	add().SetEmptySum().DataPoints().AppendEmpty().SetIntValue(1)
	h := add().SetEmptyHistogram().DataPoints().AppendEmpty()
	h.BucketCounts().FromRaw([]uint64{1, 2})
	h.ExplicitBounds().FromRaw([]float64{1})
	attributes(h.Attributes())
	e := add().SetEmptyExponentialHistogram().DataPoints().AppendEmpty()
	e.Positive().BucketCounts().FromRaw([]uint64{1, 2})
	attributes(e.Attributes())
	q := add().SetEmptySummary().DataPoints().AppendEmpty()
	q.QuantileValues().AppendEmpty().SetQuantile(0.5)
	attributes(q.Attributes())
	p, err = (&pmetric.ProtoMarshaler{}).MarshalMetrics(metrics)
	j, err2 = (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
	keep(forebay.SignalMetrics, p, err, j, err2)
	return out
}

func TestFullRequests(t *testing.T) {
	for signal, encodings := range full(t) {
		for enc, data := range encodings {
			enc := otlp.Encoding(enc)
			if got, ok := otlp.Sniff(enc, data); !ok || got != signal {
				t.Errorf("%s %d is taken for %q", signal, enc, got)
			}
			cost, err := otlp.Check(signal, enc, data, 0, 1<<20)
			if err != nil || cost < 2*len(data) {
				t.Errorf("%s %d: got cost %d, %v, want at least %d, no error", signal, enc, cost, err, 2*len(data))
			}
			var tooMuch *otlp.TooExpensiveError
			if _, err := otlp.Check(signal, enc, data, 0, 1000); !errors.As(err, &tooMuch) {
				t.Errorf("%s %d with a low limit: got %v, want a TooExpensiveError", signal, enc, err)
			}
			docs, _, err := otlp.Decode(signal, enc, data, 0)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for range docs {
				n++
			}
			if n == 0 {
				t.Errorf("%s %d has no record", signal, enc)
			}
		}
	}
}

// nested returns a log body of nested lists.
func nested(depth int) []byte {
	batch := plog.NewLogs()
	v := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body()
	for i := range depth - 1 {
		if i%2 == 0 {
			v = v.SetEmptySlice().AppendEmpty()
		} else {
			v = v.SetEmptyMap().PutEmpty("k")
		}
	}
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
	if err != nil {
		panic(err)
	}
	return data
}

func TestNesting(t *testing.T) {
	if _, err := otlp.Check(forebay.SignalLogs, otlp.Protobuf, nested(otlp.MaxNesting), 0, 1<<20); err != nil {
		t.Error(err)
	}
	if _, err := otlp.Check(forebay.SignalLogs, otlp.Protobuf, nested(otlp.MaxNesting+1), 0, 1<<20); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Error(err)
	}
	batch, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(nested(otlp.MaxNesting))
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&plog.JSONMarshaler{}).MarshalLogs(batch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := otlp.Check(forebay.SignalLogs, otlp.JSON, text, 0, 1<<20); err != nil {
		t.Errorf("JSON: %v", err)
	}
}

// Both encodings have the same limit, for lists, which need fewer brackets of JSON, and for maps.
func TestNestingOfBothEncodings(t *testing.T) {
	list := func(v pcommon.Value) pcommon.Value { return v.SetEmptySlice().AppendEmpty() }
	object := func(v pcommon.Value) pcommon.Value { return v.SetEmptyMap().PutEmpty("k") }
	for name, step := range map[string]func(pcommon.Value) pcommon.Value{"lists": list, "maps": object} {
		for depth, valid := range map[int]bool{
			otlp.MaxNesting - 1: true, otlp.MaxNesting: true, otlp.MaxNesting + 1: false, otlp.MaxNesting + 20: false, 1000: false,
		} {
			batch := plog.NewLogs()
			v := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body()
			for range depth - 1 {
				v = step(v)
			}
			proto, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
			text, err2 := (&plog.JSONMarshaler{}).MarshalLogs(batch)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			for enc, data := range map[otlp.Encoding][]byte{otlp.Protobuf: proto, otlp.JSON: text} {
				_, err := otlp.Check(forebay.SignalLogs, enc, data, 0, 1<<24)
				if err == nil {
					_, _, err = otlp.Decode(forebay.SignalLogs, enc, data, 0)
				}
				if (err == nil) != valid || !valid && !strings.Contains(err.Error(), "nested") {
					t.Errorf("%d %s, encoding %d: got %v, want an error about the nesting: %t", depth, name, enc, err, !valid)
				}
			}
		}
	}
}

// A request without a signal in its address is inspected before it is checked. That allocates nothing, whatever it contains.
func TestSniffTakesNoMemory(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want forebay.Signal
	}{
		"large member":  {`{"x":"` + strings.Repeat("x", 1<<20) + `","y":[` + strings.Repeat(`{"resourceLogs":[1]},`, 1000) + `{}],"z":1,"resourceSpans":[{}]}`, forebay.SignalTraces},
		"escapes":       {`{"a\\":"\\\"}{","b":[ ] , "resource_metrics" : [ { } ] }`, forebay.SignalMetrics},
		"empty, then":   {`{"resourceLogs":[ ],"resourceSpans":null,"resourceMetrics":[{}]}`, forebay.SignalMetrics},
		"only empty":    {`{"resourceSpans":[]}`, forebay.SignalTraces},
		"null":          {`{"resourceSpans":null,"x":{}}`, forebay.SignalTraces},
		"nothing":       {`{}`, ""},
		"no object":     {`[{"resourceLogs":[{}]}]`, ""},
		"cut":           {`{"x":{"y":"`, ""},
		"cut in a name": {`{"resourceLo`, ""},
		"no value":      {`{"x":}`, ""},
		"no JSON":       {`{"x" 1 "resourceLogs":[{}]}`, ""},
	} {
		data := []byte(c.text)
		if got, _ := otlp.Sniff(otlp.JSON, data); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if n := testing.AllocsPerRun(10, func() { otlp.Sniff(otlp.JSON, data) }); n > 0 && name != "escapes" {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}

// The content of a request belongs into its tables, not into logs of senders and proxies. Errors do not quote it.
func TestErrorsDoNotQuote(t *testing.T) {
	for _, text := range []string{
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":17},"attributes":[{"key":"password","value":{"stringValue":"hush"}}]}]}]}]}`,
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"hush"}]}]}]}`,
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"hush"}]}]}]}`,
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"bytesValue":"hush!"}}]}]}]}`,
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":"hush"}]}]}]}`,
		`{"resourceLogs":"hush"}`,
		`{"resourceLogs":[hush]}`,
		`{"resourceLogs":[{}]`,
	} {
		_, err := otlp.Check(forebay.SignalLogs, otlp.JSON, []byte(text), 0, 1<<20)
		if err == nil {
			_, _, err = otlp.Decode(forebay.SignalLogs, otlp.JSON, []byte(text), 0)
		}
		if err == nil || !errors.Is(err, otlp.ErrRequest) || strings.Contains(err.Error(), "hush") || strings.ContainsAny(err.Error(), `'|"`) {
			t.Errorf("%s: got %v, want %v without the content", text, err, otlp.ErrRequest)
		}
	}
}

// probe wraps content in the fields of path.
func probe(path []uint64, content []byte) []byte {
	for _, number := range slices.Backward(path) {
		b := binary.AppendUvarint(nil, number<<3|2)
		content = append(binary.AppendUvarint(b, uint64(len(content))), content...)
	}
	return content
}

// Check enters every message that the decoder enters, including by former field names and by tags that are not the
// shortest. Nothing that is decoded escapes its bounds.
func TestCheckSeesWhatIsDecoded(t *testing.T) {
	malformed := bytes.Repeat([]byte{0xff}, 16) // as a message, but fine as a text or as the id of a trace
	numbers := []uint64{1000}
	for n := range uint64(32) {
		numbers = append(numbers, n+1)
	}
	const deepest = 9
	for _, signal := range signals {
		messages := 0
		var explore func(path []uint64)
		explore = func(path []uint64) {
			messages++
			for _, n := range numbers {
				below := append(slices.Clip(path), n)
				data := probe(below, malformed)
				_, _, err := otlp.Decode(signal, otlp.Protobuf, data, 0)
				if err == nil || strings.Contains(err.Error(), "wireType") || strings.Contains(err.Error(), "SpanID") {
					continue // no message
				}
				if _, _, err := otlp.Decode(signal, otlp.Protobuf, probe(below, []byte{0}), 0); err == nil {
					continue // numbers one after the other
				}
				if _, err := otlp.Check(signal, otlp.Protobuf, data, 0, 1<<20); err == nil {
					t.Errorf("%s: the message at %v is not seen", signal, below)
				}
				other := append(slices.Clip(path), n+1<<32)
				if _, err := otlp.Check(signal, otlp.Protobuf, probe(other, malformed), 0, 1<<20); err == nil {
					t.Errorf("%s: the message at %v is not seen", signal, other)
				}
				if len(below) < deepest {
					explore(below)
				}
			}
		}
		explore(nil)
		if messages < 20 {
			t.Errorf("%s: only %d messages were found, want at least 20", signal, messages)
		}
	}
}

// The estimate exceeds the decoder's memory, for the requests that grow the most.
func TestCostIsAnUpperBound(t *testing.T) {
	repeat := func(n int, field ...byte) []byte {
		var b []byte
		for range n {
			b = append(b, field...)
		}
		return b
	}
	in := func(number byte, content []byte) []byte {
		size := len(content)
		return append([]byte{number<<3 | 2, byte(size) | 0x80, byte(size>>7) | 0x80, byte(size >> 14)}, content...)
	}
	const n = 50_000
	for name, c := range map[string]struct {
		signal forebay.Signal
		enc    otlp.Encoding
		data   []byte
	}{
		"resources":       {forebay.SignalLogs, otlp.Protobuf, repeat(n, 1<<3|2, 0)},
		"scopes":          {forebay.SignalTraces, otlp.Protobuf, in(1, repeat(n, 2<<3|2, 0))},
		"logs":            {forebay.SignalLogs, otlp.Protobuf, in(1, in(2, repeat(n, 2<<3|2, 0)))},
		"spans":           {forebay.SignalTraces, otlp.Protobuf, in(1, in(2, repeat(n, 2<<3|2, 0)))},
		"metrics":         {forebay.SignalMetrics, otlp.Protobuf, in(1, in(2, repeat(n, 2<<3|2, 0)))},
		"events":          {forebay.SignalTraces, otlp.Protobuf, in(1, in(2, in(2, repeat(n, 11<<3|2, 0))))},
		"links":           {forebay.SignalTraces, otlp.Protobuf, in(1, in(2, in(2, repeat(n, 13<<3|2, 0))))},
		"numbers":         {forebay.SignalMetrics, otlp.Protobuf, in(1, in(2, in(2, in(5, repeat(n, 1<<3|2, 0)))))},
		"histograms":      {forebay.SignalMetrics, otlp.Protobuf, in(1, in(2, in(2, in(9, repeat(n, 1<<3|2, 0)))))},
		"exponentials":    {forebay.SignalMetrics, otlp.Protobuf, in(1, in(2, in(2, in(10, repeat(n, 1<<3|2, 0)))))},
		"buckets":         {forebay.SignalMetrics, otlp.Protobuf, in(1, in(2, in(2, in(10, in(1, in(8, in(2, repeat(n, 1))))))))},
		"old scopes":      {forebay.SignalMetrics, otlp.Protobuf, in(1, repeat(n, 0xc2, 0x3e, 0))},
		"entities":        {forebay.SignalLogs, otlp.Protobuf, in(1, in(1, repeat(n, 3<<3|2, 0)))},
		"keys of one":     {forebay.SignalLogs, otlp.Protobuf, in(1, in(1, in(3, repeat(n, 3<<3|2, 0))))},
		"attributes":      {forebay.SignalLogs, otlp.Protobuf, in(1, in(1, repeat(n, 1<<3|2, 0)))},
		"numbers in list": {forebay.SignalLogs, otlp.Protobuf, in(1, in(2, in(2, in(5, in(5, repeat(n, 1<<3|2, 2, 3<<3, 1))))))},
		"values again":    {forebay.SignalLogs, otlp.Protobuf, in(1, in(2, in(2, in(5, repeat(n, 1<<3|2, 0)))))},
		"logs, JSON":      {forebay.SignalLogs, otlp.JSON, []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}` + strings.Repeat(",{}", n) + `]}]}]}`)},
		"list, JSON": {forebay.SignalLogs, otlp.JSON, []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"arrayValue":{"values":[{}` +
			strings.Repeat(`,{"intValue":1}`, n) + `]}}}]}]}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			cost, err := otlp.Check(c.signal, c.enc, c.data, 0, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			docs, _, err := otlp.Decode(c.signal, c.enc, c.data, 0)
			if err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(docs)
			if took := int(after.HeapAlloc) - int(before.HeapAlloc); took > cost {
				t.Errorf("%d bytes were decoded to %d, the estimate is %d, want at most %v", len(c.data), took, cost, cost)
			}
		})
	}
}

// What records share is copied into each of them, but a small request must not become gigabytes of rows.
func TestCopies(t *testing.T) {
	logs := func(records, size int) (proto, text []byte) {
		batch := plog.NewLogs()
		r := batch.ResourceLogs().AppendEmpty()
		s := r.ScopeLogs().AppendEmpty()
		s.Scope().Attributes().PutStr("s", strings.Repeat("x", size/2))
		r.Resource().Attributes().PutStr("r", strings.Repeat("x", size/2))
		for range records {
			s.LogRecords().AppendEmpty()
		}
		proto, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
		text, err2 := (&plog.JSONMarshaler{}).MarshalLogs(batch)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return proto, text
	}
	metrics := func(points, size int) (proto, text []byte) {
		batch := pmetric.NewMetrics()
		m := batch.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetDescription(strings.Repeat("x", size))
		m.SetEmptyGauge()
		for range points {
			m.Gauge().DataPoints().AppendEmpty()
		}
		proto, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(batch)
		text, err2 := (&pmetric.JSONMarshaler{}).MarshalMetrics(batch)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return proto, text
	}
	for _, c := range []struct {
		signal  forebay.Signal
		request func(n, size int) (proto, text []byte)
		n, size int
		bomb    bool
	}{
		{forebay.SignalLogs, logs, 1000, 100 << 10, false},
		{forebay.SignalLogs, logs, 2000, 100 << 10, true},
		{forebay.SignalMetrics, metrics, 1000, 100 << 10, false},
		{forebay.SignalMetrics, metrics, 2000, 100 << 10, true},
		{forebay.SignalLogs, logs, 50_000, 2 << 10, false},
		{forebay.SignalLogs, logs, 1, 7 << 20, false},
	} {
		proto, text := c.request(c.n, c.size)
		_, protoErr := otlp.Check(c.signal, otlp.Protobuf, proto, 0, 1<<30)
		_, _, textErr := otlp.Decode(c.signal, otlp.JSON, text, 0)
		for _, err := range []error{protoErr, textErr} {
			var tooMuch *otlp.TooExpensiveError
			if bomb := errors.As(err, &tooMuch) && tooMuch.Copies; bomb != c.bomb || !bomb && err != nil {
				t.Errorf("%d %s with %d bytes in common: got %v, want an error for the copies: %t", c.n, c.signal, c.size, err, c.bomb)
			}
		}
	}
}

// The decoder stops at the end of the first value. The rest would be lost silently.
func TestTrailingJSON(t *testing.T) {
	for text, valid := range map[string]bool{
		"{} \r\n\t": true, `{"a":{"b":[{}]}}`: true, `{"a":"}"}`: true,
		"{}{}": false, "{}\n{\"resourceLogs\":[]}": false, "{} x": false, "{}]": false, `{},{}`: false,
	} {
		if _, err := otlp.Check(forebay.SignalLogs, otlp.JSON, []byte(text), 0, 1<<20); (err == nil) != valid || !valid && !errors.Is(err, otlp.ErrRequest) {
			t.Errorf("%q: got %v, want an error: %t", text, err, !valid)
		}
	}
}

func TestResponses(t *testing.T) {
	for _, c := range []struct {
		signal   forebay.Signal
		enc      otlp.Encoding
		rejected int
		message  string
		want     string
	}{
		{forebay.SignalLogs, otlp.Protobuf, 0, "", ""},
		{forebay.SignalLogs, otlp.JSON, 0, "", "{}"},
		{forebay.SignalLogs, otlp.Protobuf, 300, "no", "\x0a\x07\x08\xac\x02\x12\x02no"},
		{forebay.SignalMetrics, otlp.Protobuf, 0, "hm", "\x0a\x04\x12\x02hm"},
		{forebay.SignalMetrics, otlp.JSON, 3, `"x"`, `{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"\"x\""}}`},
		{forebay.SignalTraces, otlp.JSON, 0, "hm", `{"partialSuccess":{"errorMessage":"hm"}}`},
	} {
		if got := otlp.AppendResponse(nil, c.signal, c.enc, c.rejected, c.message); string(got) != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := otlp.AppendStatus(nil, 14, "later"); string(got) != "\x08\x0e\x12\x05later" {
		t.Errorf("got %q, want string(got) == \"\\x08\\x0e\\x12\\x05later\"", got)
	}
}

// What has passed Check is decoded and written without a panic, and the output is JSON.
func FuzzDecode(tf *testing.F) {
	f := fuzztest.New(tf)
	documents := full(f)
	for i, signal := range signals {
		for _, data := range documents[signal] {
			f.Add(uint8(i), data)
		}
	}
	f.Add(uint8(0), nested(otlp.MaxNesting+1))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		for _, enc := range []otlp.Encoding{otlp.Protobuf, otlp.JSON} {
			otlp.Sniff(enc, data)
			signal := signals[int(which)%len(signals)]
			if _, err := otlp.Check(signal, enc, data, 0, 1<<20); err != nil {
				continue
			}
			docs, _, err := otlp.Decode(signal, enc, data, 0)
			if err != nil {
				continue
			}
			for doc := range docs {
				text, err := doc.AppendJSON(nil)
				if err != nil || !json.Valid(text) {
					t.Fatalf("got %v: %s, want no error and json.Valid(text)", err, text)
				}
			}
		}
	})
}
