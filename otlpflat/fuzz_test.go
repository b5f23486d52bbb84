package otlpflat_test

import (
	"iter"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// maxFuzzed bounds the documents that are checked for one input.
const maxFuzzed = 3

func checkAll(t *testing.T, docs iter.Seq[mapping.FieldDocument]) {
	n := 0
	for doc := range docs {
		if n++; n > maxFuzzed {
			return
		}
		checkAgreement(t, doc)
	}
}

// Whatever the decoders accept, in either encoding, becomes JSON, and its fields agree with that JSON.
func FuzzLogs(tf *testing.F) {
	f := fuzztest.New(tf)
	for seed := range uint64(5) {
		batch := newGenerator(seed).logs()
		proto, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
		if err != nil {
			f.Fatal(err)
		}
		text, err := (&plog.JSONMarshaler{}).MarshalLogs(batch)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(proto)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if batch, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(data); err == nil {
			checkAll(t, otlpflat.Logs(batch))
		}
		if batch, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(data); err == nil {
			checkAll(t, otlpflat.Logs(batch))
		}
	})
}

func FuzzTraces(tf *testing.F) {
	f := fuzztest.New(tf)
	for seed := range uint64(5) {
		batch := newGenerator(seed).traces()
		proto, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(batch)
		if err != nil {
			f.Fatal(err)
		}
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(batch)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(proto)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if batch, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data); err == nil {
			checkAll(t, otlpflat.Traces(batch))
		}
		if batch, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data); err == nil {
			checkAll(t, otlpflat.Traces(batch))
		}
	})
}

func FuzzMetrics(tf *testing.F) {
	f := fuzztest.New(tf)
	for seed := range uint64(5) {
		batch := newGenerator(seed).metrics()
		proto, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(batch)
		if err != nil {
			f.Fatal(err)
		}
		text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(batch)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(proto)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if batch, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(data); err == nil {
			checkAll(t, otlpflat.Metrics(batch))
		}
		if batch, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(data); err == nil {
			checkAll(t, otlpflat.Metrics(batch))
		}
	})
}
