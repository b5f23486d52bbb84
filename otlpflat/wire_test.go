package otlpflat_test

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

func encode(tb testing.TB, batch plog.Logs) []byte {
	tb.Helper()
	return must((&plog.ProtoMarshaler{}).MarshalLogs(batch))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A signal is read in place and by pdata, which tells the number of records.
type signal struct {
	name    string
	request func(generator) []byte
	inPlace func([]byte) (iter.Seq[mapping.FieldDocument], int, bool)
	byPdata func([]byte) (iter.Seq[mapping.FieldDocument], int, error)
	table   mapping.Columns
}

var signals = []signal{
	{
		"logs", func(g generator) []byte { return must((&plog.ProtoMarshaler{}).MarshalLogs(g.wide(g.logs()))) }, otlpflat.EncodedLogs,
		func(data []byte) (iter.Seq[mapping.FieldDocument], int, error) {
			batch, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(data)
			if err != nil {
				return nil, 0, err
			}
			return otlpflat.Logs(batch), batch.LogRecordCount(), nil
		}, otlpflat.LogsTable(),
	},
	{
		"metrics", func(g generator) []byte { return must((&pmetric.ProtoMarshaler{}).MarshalMetrics(g.metrics())) }, otlpflat.EncodedMetrics,
		func(data []byte) (iter.Seq[mapping.FieldDocument], int, error) {
			batch, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(data)
			if err != nil {
				return nil, 0, err
			}
			return otlpflat.Metrics(batch), batch.DataPointCount(), nil
		}, otlpflat.MetricsTable(),
	},
	{
		"traces", func(g generator) []byte { return must((&ptrace.ProtoMarshaler{}).MarshalTraces(g.traces())) }, otlpflat.EncodedTraces,
		func(data []byte) (iter.Seq[mapping.FieldDocument], int, error) {
			batch, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
			if err != nil {
				return nil, 0, err
			}
			return otlpflat.Traces(batch), batch.SpanCount(), nil
		}, otlpflat.TracesTable(),
	},
}

// check compares the records of a request read in place with the records read after pdata has decoded and encoded it, and reports whether it is read
// in place.
func (k signal) check(tb testing.TB, data []byte) bool {
	tb.Helper()
	before := bytes.Clone(data)
	docs, records, ok := k.inPlace(data)
	if !ok {
		return false
	}
	wanted, n, err := k.byPdata(before)
	if err != nil {
		tb.Fatalf("%s %x: it is read, but pdata refuses it: %v", k.name, before, err)
	}
	if n != records {
		tb.Fatalf("%s %x: got %d records, want %d", k.name, before, records, n)
	}
	clear(data) // its bytes are no longer used
	next, stop := iter.Pull(docs)
	defer stop()
	for want := range wanted {
		got, ok := next()
		if !ok {
			tb.Fatalf("%s %x: a record is missing", k.name, before)
		}
		gotText, gotErr := got.AppendJSON(nil)
		wantText, wantErr := want.AppendJSON(nil)
		if gotErr != nil || wantErr != nil || !bytes.Equal(gotText, wantText) {
			tb.Fatalf("%s %x\ngot  %s, %v\nwant %s, %v", k.name, before, gotText, gotErr, wantText, wantErr)
		}
		type timed interface{ At() uint64 }
		if got, want := got.(timed).At(), want.(timed).At(); got != want {
			tb.Fatalf("%s %x: the time is %d, want %d", k.name, before, got, want)
		}
		n--
	}
	if _, ok := next(); ok || n != 0 {
		tb.Fatalf("%s %x: got a number of records that differs by %d, want the same", k.name, before, n)
	}
	return true
}

// checkLogs is check for logs.
func checkLogs(tb testing.TB, data []byte) bool { return signals[0].check(tb, data) }

// A request that pdata has written is read in place, and a path finds the written values of the record.
func TestEncoded(t *testing.T) {
	for _, k := range signals {
		g, records := newGenerator(seedtest.Of(t)), 0
		for range 100 {
			data := k.request(g)
			if !k.check(t, bytes.Clone(data)) {
				t.Fatalf("%s %x is not read", k.name, data)
			}
			docs, n, _ := k.inPlace(data)
			if records += n; n > 0 {
				for doc := range docs {
					checkAgreement(t, doc)
					break
				}
			}
		}
		if records < 100 {
			t.Errorf("%s: only %d records were compared, want at least 100", k.name, records)
		}
	}
}

// field is an encoded field with content, or with a number that already is encoded.
func field(tag uint64, text []byte) []byte {
	data := binary.AppendUvarint(nil, tag)
	if tag&7 == 2 {
		data = binary.AppendUvarint(data, uint64(len(text)))
	}
	return append(data, text...)
}

// What is not usual is left to pdata, at every level.
func TestEncodedLogsThatAreUnusual(t *testing.T) {
	usual := encode(t, logBatch(150))
	if !checkLogs(t, bytes.Clone(usual)) {
		t.Fatal("a request of a service is not read")
	}
	in := func(data []byte, tags ...uint64) []byte { // a message within messages
		for _, tag := range slices.Backward(tags) {
			data = field(tag<<3|2, data)
		}
		return data
	}
	twice := func(data []byte) []byte { return append(bytes.Clone(data), data...) }
	for name, data := range map[string][]byte{
		"nothing": {}, "a group": in(nil, 1), "a scope": in(nil, 1, 2), "a record": in(nil, 1, 2, 2), "a body": in(nil, 1, 2, 2, 5), "a pair": in(nil, 1, 2, 2, 6),
		"attributes apart": in(slices.Concat(in([]byte("a"), 6, 1), in([]byte("text"), 3), in([]byte("b"), 6, 1), in([]byte("a"), 6, 1)), 1, 2, 2),
		"a long length":    append([]byte{1<<3 | 2, 0x80, 0x80, 0x00}, usual...), "a long number": in(append([]byte{2 << 3}, bytes.Repeat([]byte{0xff}, 9)...), 1, 2, 2),
		"a number of ten bytes": in(append(append([]byte{2 << 3}, bytes.Repeat([]byte{0xff}, 9)...), 0x7f), 1, 2, 2),
	} {
		if want := name != "a long number"; checkLogs(t, bytes.Clone(data)) != want {
			t.Errorf("%s is read: %v", name, !want)
		}
	}
	for name, data := range map[string][]byte{
		"unknown field": field(2<<3|2, nil), "unknown field of a group": in(field(4<<3|2, nil), 1), "old scopes": in(field(1000<<3|2, nil), 1),
		"entity": in(nil, 1, 1, 3), "unknown field of a resource": in(field(4<<3, []byte{1}), 1, 1), "unknown field of scope logs": in(field(4<<3|2, nil), 1, 2),
		"unknown field of a scope": in(field(5<<3|2, nil), 1, 2, 1), "unknown field of a record": in(field(4<<3|2, nil), 1, 2, 2), "key index": in(field(3<<3, []byte{1}), 1, 2, 2, 6),
		"unknown value": in(field(8<<3, []byte{1}), 1, 2, 2, 5), "unknown field of an array": in(field(2<<3|2, nil), 1, 2, 2, 5, 5), "unknown field of a map": in(field(2<<3|2, nil), 1, 2, 2, 5, 6),
		"two resources": in(twice(in(nil, 1)), 1), "two schemas": in(twice(in(nil, 3)), 1), "two scopes": in(twice(in(nil, 1)), 1, 2), "two schemas of a scope": in(twice(in(nil, 3)), 1, 2),
		"two names": in(twice(in(nil, 1)), 1, 2, 1), "two counts": in(twice(field(2<<3, []byte{1})), 1, 1), "two bodies": in(twice(in(in([]byte("a"), 1), 5)), 1, 2, 2),
		"two times": in(twice(field(1<<3|1, make([]byte, 8))), 1, 2, 2), "two keys": in(twice(in(nil, 1)), 1, 2, 2, 6), "two values": in(twice(in(nil, 2)), 1, 2, 2, 6),
		"two values of a body": in(twice(in([]byte("a"), 1)), 1, 2, 2, 5), "two trace ids": in(twice(in(make([]byte, 16), 9)), 1, 2, 2), "two span ids": in(twice(in(make([]byte, 8), 10)), 1, 2, 2),
		"short trace id": in(make([]byte, 15), 1, 2, 2, 9), "long span id": in(make([]byte, 9), 1, 2, 2, 10), "wrong wire type": in(field(1<<3, []byte{1}), 1, 2, 2),
		"group": {1<<3 | 3, 1<<3 | 4}, "long tag": {0x8a, 0x00, 0x00}, "no tag": {0}, "field 0": {2, 0}, "truncated": usual[:len(usual)-1], "huge length": {10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"truncated number": in([]byte{2 << 3, 0x80}, 1, 2, 2), "truncated time": in([]byte{1<<3 | 1, 1, 2, 3}, 1, 2, 2), "truncated flags": in([]byte{8<<3 | 5, 1, 2, 3}, 1, 2, 2),
	} {
		if _, _, ok := otlpflat.EncodedLogs(data); ok {
			t.Errorf("%s is read: %x", name, data)
		}
	}
	deep := []byte(nil)
	for range 2000 {
		deep = in(deep, 5, 1)
	}
	if _, _, ok := otlpflat.EncodedLogs(in(deep, 1, 2, 2, 5)); ok {
		t.Error("2000 arrays within each other are read")
	}
}

// The rules of points and spans that logs do not have.
func TestEncodedPointsAndSpansThatAreUnusual(t *testing.T) {
	in := func(data []byte, tags ...uint64) []byte {
		for _, tag := range slices.Backward(tags) {
			data = field(tag<<3|2, data)
		}
		return data
	}
	point := func(data []byte, typ uint64) []byte { return in(data, 1, 2, 2, typ, 1) }
	eight := make([]byte, 8)
	for name, data := range map[string][]byte{
		"two types": in(slices.Concat(in(nil, 5), in(nil, 7)), 1, 2, 2), "one type twice": in(slices.Concat(in(nil, 7), in(nil, 7)), 1, 2, 2),
		"two values": point(slices.Concat(field(4<<3|1, eight), field(6<<3|1, eight)), 5), "a point of another type": point(field(4<<3|1, eight), 11)[:20],
		"counts apart": point(slices.Concat(in(eight, 6), in(eight, 6)), 9), "a count without a list": point(field(6<<3|1, eight), 9),
		"a broken count": point(in(eight[:7], 6), 9), "a broken bound": point(in(eight[:1], 7), 9), "a broken bucket": point(in(in([]byte{0x80}, 2), 8), 10),
		"two offsets": point(in(slices.Concat(field(1<<3, []byte{2}), field(1<<3, []byte{2})), 9), 10), "unknown field of a quantile": point(in(field(3<<3|1, eight), 6), 11),
		"two values of an exemplar": point(in(slices.Concat(field(3<<3|1, eight), field(6<<3|1, eight)), 5), 5), "short id of an exemplar": point(in(eight, 5, 5), 5),
	} {
		if _, _, ok := otlpflat.EncodedMetrics(data); ok {
			t.Errorf("metrics: %s is read: %x", name, data)
		}
	}
	for name, data := range map[string][]byte{
		"two states": in(slices.Concat(in(nil, 15), in(nil, 15)), 1, 2, 2), "old code": in(field(1<<3, []byte{1}), 1, 2, 2, 15), "short parent": in(eight[:7], 1, 2, 2, 4),
		"short id of a link": in(eight, 1, 2, 2, 13, 1), "unknown field of an event": in(field(5<<3, []byte{1}), 1, 2, 2, 11), "field 17": in(field(17<<3|5, eight[:4]), 1, 2, 2),
		"flags of a long tag": in(append([]byte{0x85, 0x81, 0x00}, 1, 2, 3, 4), 1, 2, 2), "two flags": in(bytes.Repeat(field(16<<3|5, eight[:4]), 2), 1, 2, 2),
	} {
		if _, _, ok := otlpflat.EncodedTraces(data); ok {
			t.Errorf("traces: %s is read: %x", name, data)
		}
	}
}

// mutated changes a few bytes, or cuts and joins pieces.
func (g generator) mutated(data []byte) []byte {
	data = bytes.Clone(data)
	for n := g.IntN(4); n >= 0 && len(data) > 0; n-- {
		at := g.IntN(len(data))
		switch g.IntN(4) {
		case 0:
			data[at] = byte(g.Uint32())
		case 1:
			data[at] ^= 1 << g.IntN(8)
		case 2:
			data = slices.Delete(data, at, min(len(data), at+1+g.IntN(4)))
		case 3:
			data = slices.Insert(data, at, bytes.Clone(data[at:min(len(data), at+1+g.IntN(20))])...)
		}
	}
	return data
}

// Damaged requests are read as pdata reads them, or not at all.
func TestEncodedDamaged(t *testing.T) {
	for _, k := range signals {
		g, read := newGenerator(seedtest.Of(t)), 0
		for range 200 {
			data := k.request(g)
			for range 50 {
				if k.check(t, g.mutated(data)) {
					read++
				}
			}
		}
		if read < 300 {
			t.Errorf("%s: only %d requests were read, want at least 300", k.name, read)
		}
	}
}

func FuzzEncoded(tf *testing.F) {
	f := fuzztest.New(tf)
	g := newGenerator(1)
	for range 8 {
		for _, k := range signals {
			f.Add(k.request(g))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, k := range signals {
			k.check(t, bytes.Clone(data))
		}
	})
}

// Reading allocates for the request, not for its records.
func TestEncodedAllocates(t *testing.T) {
	for _, k := range signals {
		m := must(mapping.Compile(k.table, mapping.Options{}))
		rec, out := new(mapping.Record), []byte(nil)
		data := k.plain()
		allocations := func(data []byte) float64 {
			return testing.AllocsPerRun(20, func() {
				docs, n, ok := k.inPlace(data)
				if !ok || n < 100 {
					t.Fatalf("%s: got %d records, %v, want at least 100", k.name, n, ok)
				}
				out = out[:0]
				var err error
				for doc := range docs {
					rec.Reset()
					rec.Document = doc
					if out, err = m.AppendRow(out, rec); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
		if n, twice := allocations(data), allocations(append(bytes.Clone(data), data...)); n > 30 || twice > n+5 {
			t.Errorf("%s: got %v allocations for a request of 100 records and %v for one of 200, want at most 30 and 5 more", k.name, n, twice)
		}
	}
}

// plain is a request of 100 records as a service sends them.
func (k signal) plain() []byte {
	switch k.name {
	case "logs":
		return must((&plog.ProtoMarshaler{}).MarshalLogs(logBatch(150)))
	case "metrics":
		batch := pmetric.NewMetrics()
		points := batch.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyHistogram().DataPoints()
		for i := range 100 {
			p := points.AppendEmpty()
			p.SetTimestamp(testTime)
			p.SetSum(float64(i) / 4)
			p.BucketCounts().FromRaw([]uint64{1, uint64(i), 3})
			p.ExplicitBounds().FromRaw([]float64{0.5, 10})
			p.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
		}
		return must((&pmetric.ProtoMarshaler{}).MarshalMetrics(batch))
	}
	batch := ptrace.NewTraces()
	spans := batch.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range 100 {
		s := spans.AppendEmpty()
		s.SetTraceID(testTraceID)
		s.SetSpanID(testSpanID)
		s.SetStartTimestamp(testTime)
		s.SetEndTimestamp(testTime)
		s.SetFlags(257)
		s.Events().AppendEmpty().SetName("retry")
		s.Links().AppendEmpty().SetTraceID(testTraceID)
		s.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
	}
	return must((&ptrace.ProtoMarshaler{}).MarshalTraces(batch))
}
