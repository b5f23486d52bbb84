package stream_test

import (
	"net/http"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/spantest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// The sender of a request is the parent of the span of its call, for events, for calls with a key and for telemetry. A malformed header is ignored.
// A header that is hidden from mappings still names the sender.
func TestSenderIsTheParentOfTheCall(t *testing.T) {
	const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const sender = "00-" + traceID + "-" + spanID + "-01"
	tracer := new(spantest.Tracer)
	list := source("list", mapping.Path("n", "n"))
	list.Split = forebay.SplitArray
	s := newService(t, func(o *forebay.Options) { o.Tracer = tracer }, source("web", mapping.Path("n", "n")), list, telemetry())
	s.url = serve(t, stream.Ingest(s.eng, stream.Options{HiddenHeaders: []string{"traceparent"}}))
	batch := recentLogs(t, "tick")
	n := 0
	for name, send := range map[string]func(header ...string) int{
		"event": func(header ...string) int {
			status, _, _ := s.export("/stream/1/web/"+webSecret, []byte(`{"n":1}`), append(header, "Content-Type", jsonBody)...)
			return status
		},
		"event with a key": func(header ...string) int {
			status, _, _ := s.export("/stream/1/web/"+webSecret, []byte(`{"n":1}`), append(header, "Content-Type", jsonBody, "Idempotency-Key", "k")...)
			return status
		},
		"events": func(header ...string) int {
			status, _, _ := s.export("/stream/1/list/"+webSecret, []byte(`[{"n":1},{"n":2}]`), append(header, "Content-Type", jsonBody)...)
			return status
		},
		"telemetry": func(header ...string) int {
			status, _, _ := s.export("/otlp/1/app/"+webSecret+"/v1/logs", batch, append(header, "Content-Type", protobuf)...)
			return status
		},
	} {
		for _, header := range [][]string{{"traceparent", sender}, {"traceparent", sender[:50]}, nil} {
			if status := send(header...); status != http.StatusOK {
				t.Fatalf("%s with %q: status %d, want %v", name, header, status, http.StatusOK)
			}
			calls := tracer.Named("forebay.ingest")
			if n++; len(calls) != n {
				t.Fatalf("%s: there are %d calls, want %d", name, len(calls), n)
			}
			parent := calls[n-1].Parent
			if known := header != nil && header[1] == sender; parent.IsValid() != known || known && (parent.TraceID().String() != traceID || parent.SpanID().String() != spanID || !parent.IsRemote()) {
				t.Errorf("%s with %q: the parent is %v %v", name, header, parent.TraceID(), parent.SpanID())
			}
		}
	}
}
