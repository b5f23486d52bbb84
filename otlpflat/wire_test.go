package otlpflat_test

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

func encode(tb testing.TB, batch plog.Logs) []byte {
	tb.Helper()
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// checkEncoded compares what is read of an encoded request with what pdata reads, and reports whether it was read.
func checkEncoded(tb testing.TB, data []byte) bool {
	tb.Helper()
	before := bytes.Clone(data)
	docs, records, ok := otlpflat.EncodedLogs(data)
	if !ok {
		return false
	}
	batch, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(before)
	if err != nil {
		tb.Fatalf("%x is read, but pdata refuses it: %v", before, err)
	}
	if n := batch.LogRecordCount(); n != records {
		tb.Fatalf("%x has %d records, want %d", before, records, n)
	}
	clear(data) // of which nothing is used any more
	next, stop := iter.Pull(docs)
	defer stop()
	for want := range otlpflat.Logs(batch) {
		got, ok := next()
		if !ok {
			tb.Fatalf("%x: a record is missing", before)
		}
		gotText, gotErr := got.AppendJSON(nil)
		wantText, wantErr := want.AppendJSON(nil)
		if gotErr != nil || wantErr != nil || !bytes.Equal(gotText, wantText) {
			tb.Fatalf("%x\ngot  %s, %v\nwant %s, %v", before, gotText, gotErr, wantText, wantErr)
		}
		type timed interface{ At() uint64 }
		if got, want := got.(timed).At(), want.(timed).At(); got != want {
			tb.Fatalf("%x: the time is %d, want %d", before, got, want)
		}
	}
	if _, ok := next(); ok {
		tb.Fatalf("%x: a record too many", before)
	}
	return true
}

// A request that pdata has written is read without it, to the same records, fields and rows.
func TestEncodedLogs(t *testing.T) {
	g := newGenerator(seedtest.Of(t))
	mappers := mappersOf(t)
	records := 0
	for range 300 {
		batch := g.wide(g.logs())
		data := encode(t, batch)
		if !checkEncoded(t, bytes.Clone(data)) {
			t.Fatalf("%x is not read", data)
		}
		docs, _, _ := otlpflat.EncodedLogs(data)
		next, stop := iter.Pull(docs)
		for want := range otlpflat.Logs(batch) {
			got, _ := next()
			if records%10 == 0 {
				checkAgreement(t, got)
			}
			records++
			for k, m := range mappers {
				gotRow, gotErr := m.AppendRow(nil, &mapping.Record{Document: got})
				wantRow, wantErr := m.AppendRow(nil, &mapping.Record{Document: want})
				if (gotErr == nil) != (wantErr == nil) || !bytes.Equal(gotRow, wantRow) {
					t.Fatalf("mapper %d\ngot  %s, %v\nwant %s, %v", k, gotRow, gotErr, wantRow, wantErr)
				}
			}
		}
		stop()
	}
	if records < 200 {
		t.Errorf("only %d records were compared", records)
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
	if !checkEncoded(t, bytes.Clone(usual)) {
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
		if want := name != "a long number"; checkEncoded(t, bytes.Clone(data)) != want {
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
func TestEncodedLogsDamaged(t *testing.T) {
	g := newGenerator(seedtest.Of(t))
	read := 0
	for range 200 {
		data := encode(t, g.logs())
		for range 50 {
			if checkEncoded(t, g.mutated(data)) {
				read++
			}
		}
	}
	if read < 500 {
		t.Errorf("only %d requests were read", read)
	}
}

func FuzzEncodedLogs(tf *testing.F) {
	f := fuzztest.New(tf)
	g := newGenerator(1)
	for range 8 {
		f.Add(encode(tf, g.logs()))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkEncoded(t, data) })
}

// Reading allocates for the request, not for its records.
func TestEncodedLogsAllocate(t *testing.T) {
	data := encode(t, logBatch(150))
	m, err := mapping.Compile(otlpflat.LogsTable(), mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rec, out := new(mapping.Record), []byte(nil)
	n := testing.AllocsPerRun(20, func() {
		docs, _, _ := otlpflat.EncodedLogs(data)
		out = out[:0]
		for doc := range docs {
			rec.Reset()
			rec.Document = doc
			if out, err = m.AppendRow(out, rec); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 25 {
		t.Errorf("%v allocations for a request of 100 records", n)
	}
}
