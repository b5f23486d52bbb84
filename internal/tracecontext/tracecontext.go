// Package tracecontext reads and writes the span that a request or record is a part of: W3C Trace Context. The package propagation of OpenTelemetry
// does the same, and brings baggage along, which makes each program larger.
package tracecontext

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Parent and State are the canonical names of the headers.
const (
	Parent = "Traceparent"
	State  = "Tracestate"
)

// Of returns ctx with the span that the rows of a request belong to. A middleware that has made a span for the request left it in the context of the
// request, and the span of the sender is its parent. Otherwise the span of the sender is in the headers, whose values of a name values returns. Headers
// that are malformed mean nothing.
func Of(ctx, request context.Context, values func(name string) []string) context.Context {
	if span := trace.SpanFromContext(request); span.SpanContext().IsValid() {
		return trace.ContextWithSpan(ctx, span)
	}
	parent := values(Parent)
	if len(parent) != 1 { // two are malformed
		return ctx
	}
	sender, ok := parse(parent[0])
	if !ok {
		return ctx
	}
	if state, err := trace.ParseTraceState(strings.Join(values(State), ",")); err == nil { // a malformed state does not spoil the parent
		sender = sender.WithTraceState(state)
	}
	return trace.ContextWithRemoteSpanContext(ctx, sender)
}

// parse reads version-trace-span-flags. A later version may have more after the flags.
func parse(text string) (trace.SpanContext, bool) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' || len(text) > length && (text[:2] == "00" || text[length] != '-') {
		return trace.SpanContext{}, false
	}
	version, okVersion := hexByte(text[:2])
	flags, okFlags := hexByte(text[53:55])
	traceID, err1 := trace.TraceIDFromHex(text[3:35]) // refuses zeros and capitals
	spanID, err2 := trace.SpanIDFromHex(text[36:52])
	if !okVersion || version == 0xff || !okFlags || err1 != nil || err2 != nil {
		return trace.SpanContext{}, false
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled}), true
}

// hexByte reads two digits, which are no capitals.
func hexByte(text string) (b byte, ok bool) {
	const digits = "0123456789abcdef"
	high, low := strings.IndexByte(digits, text[0]), strings.IndexByte(digits, text[1])
	return byte(high<<4 | low&0xf), high >= 0 && low >= 0
}

// Header returns the headers of a request that is a part of a valid span.
func Header(span trace.SpanContext) http.Header {
	h := http.Header{Parent: {"00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + (span.TraceFlags() & trace.FlagsSampled).String()}}
	if state := span.TraceState().String(); state != "" {
		h[State] = []string{state}
	}
	return h
}
