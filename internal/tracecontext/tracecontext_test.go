package tracecontext_test

import (
	"context"
	"net/http"
	"reflect"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay/internal/spantest"
	"github.com/forebay/forebay/internal/tracecontext"
)

// The sender is in a well-formed header. A malformed header is ignored, and so are two headers.
func TestOf(t *testing.T) {
	const traceID, good = "0af7651916cd43dd8448eb211c80319c", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, tt := range map[string]struct {
		header http.Header
		valid  bool
		state  string
	}{
		"none":            {header: http.Header{}},
		"sampled":         {header: http.Header{"Traceparent": {good}}, valid: true},
		"with a state":    {header: http.Header{"Traceparent": {good}, "Tracestate": {"a=1", "b=2"}}, valid: true, state: "a=1,b=2"},
		"bad state":       {header: http.Header{"Traceparent": {good}, "Tracestate": {"=,;"}}, valid: true},
		"later version":   {header: http.Header{"Traceparent": {"01" + good[2:] + "-what-follows"}}, valid: true},
		"two headers":     {header: http.Header{"Traceparent": {good, good}}},
		"empty":           {header: http.Header{"Traceparent": {""}}},
		"too short":       {header: http.Header{"Traceparent": {good[:54]}}},
		"too long":        {header: http.Header{"Traceparent": {good + "-00"}}},
		"no hexadecimals": {header: http.Header{"Traceparent": {"00-" + "0Xf7651916cd43dd8448eb211c80319c" + good[35:]}}},
		"upper case":      {header: http.Header{"Traceparent": {"00-0AF7651916CD43DD8448EB211C80319C" + good[35:]}}},
		"zero trace":      {header: http.Header{"Traceparent": {"00-00000000000000000000000000000000" + good[35:]}}},
		"zero span":       {header: http.Header{"Traceparent": {good[:36] + "0000000000000000-01"}}},
		"bad version":     {header: http.Header{"Traceparent": {"0x" + good[2:]}}},
		"bad flags":       {header: http.Header{"Traceparent": {good[:53] + "0g"}}},
		"no dash":         {header: http.Header{"Traceparent": {good[:52] + "_01"}}},
		"later, no dash":  {header: http.Header{"Traceparent": {"01" + good[2:] + "more"}}},
		"version ff":      {header: http.Header{"Traceparent": {"ff" + good[2:]}}},
	} {
		got := trace.SpanContextFromContext(tracecontext.Of(t.Context(), context.Background(), tt.header.Values))
		if got.IsValid() != tt.valid || tt.valid && (got.TraceID().String() != traceID || !got.IsSampled() || !got.IsRemote() || got.TraceState().String() != tt.state) {
			t.Errorf("%s: got %+v, want the parent of the header, valid: %t", name, got, tt.valid)
		}
	}
	for _, flags := range []string{"00", "01"} {
		header := http.Header{"Traceparent": {good[:53] + flags}, "Tracestate": {"a=1,b=2"}}
		sender := trace.SpanContextFromContext(tracecontext.Of(t.Context(), context.Background(), header.Values))
		if got := tracecontext.Header(sender); !reflect.DeepEqual(got, header) || sender.IsSampled() != (flags == "01") {
			t.Errorf("got %v, want %v", got, header)
		}
	}
	request, span := new(spantest.Tracer).Start(t.Context(), "middleware")
	header := http.Header{"Traceparent": {good}}
	if got := trace.SpanFromContext(tracecontext.Of(t.Context(), request, header.Values)); got != span {
		t.Errorf("got %v, want the span of the middleware", got)
	}
}
