package otlptest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay"
)

// slowDisk is a disk whose syncs wait while it is held.
type slowDisk struct {
	mu   sync.Mutex
	hold chan struct{} // closed to go on; nil: not held
}

// MaybeError implements [errorfs.Injector].
func (d *slowDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		d.mu.Lock()
		hold := d.hold
		d.mu.Unlock()
		if hold != nil {
			<-hold
		}
	}
	return nil
}

// String implements [errorfs.Injector].
func (d *slowDisk) String() string { return "slow disk" }

func (d *slowDisk) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = make(chan struct{})
}

func (d *slowDisk) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.hold)
	d.hold = nil
}

// spanBatch is large enough that a few of them fill the memory of the engine.
func spanBatch(batch int) (spans []sdktrace.ReadOnlySpan) {
	var stubs tracetest.SpanStubs
	for i := range 10 {
		stubs = append(stubs, tracetest.SpanStub{
			Name: fmt.Sprintf("%d/%d", batch, i),
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID{1, byte(batch)}, SpanID: trace.SpanID{1, byte(i)},
			}),
			Attributes: []attribute.KeyValue{attribute.String("fill", strings.Repeat("x", 30<<10))},
		})
	}
	return stubs.Snapshots()
}

// An engine that is full refuses batches until the disk goes on. The exporter's own retries deliver all of them, each
// exactly once.
func TestRetryAfterOverload(t *testing.T) {
	for name, open := range map[string]func(*service) (sdktrace.SpanExporter, error){
		"HTTP": func(s *service) (sdktrace.SpanExporter, error) {
			return otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(s.http+"/otlp/1/app/"+secret+"/v1/traces"),
				otlptracehttp.WithTimeout(time.Minute), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
					Enabled: true, InitialInterval: time.Millisecond, MaxInterval: time.Second, MaxElapsedTime: time.Minute,
				}))
		},
		"gRPC": func(s *service) (sdktrace.SpanExporter, error) {
			return otlptracegrpc.New(context.Background(), otlptracegrpc.WithEndpoint(s.grpc), otlptracegrpc.WithInsecure(),
				otlptracegrpc.WithHeaders(bearer), otlptracegrpc.WithTimeout(time.Minute), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
					Enabled: true, InitialInterval: time.Millisecond, MaxInterval: time.Second, MaxElapsedTime: time.Minute,
				}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := new(slowDisk)
			s := newService(t, func(o *forebay.Options) {
				o.Buffer.FS = errorfs.Wrap(vfs.NewMem(), disk)
				o.Buffer.MaxPendingBytes = 1 << 20
				o.Buffer.AdmissionWait = -1
			})
			exporter := must(open(s))(t)
			disk.pause()
			const batches = 12
			var wg sync.WaitGroup
			failed := make(chan error, batches)
			for b := range batches {
				wg.Go(func() {
					if err := exporter.ExportSpans(t.Context(), spanBatch(b)); err != nil {
						failed <- err
					}
				})
			}
			<-s.refused // several batches are more than the engine can take
			disk.resume()
			wg.Wait()
			close(failed)
			for err := range failed {
				t.Error(err)
			}
			if err := exporter.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			seen := make(map[string]int)
			for _, r := range s.records("traces") {
				seen[r["name"].(string)]++
			}
			for b := range batches {
				for _, span := range spanBatch(b) {
					if n := seen[span.Name()]; n != 1 {
						t.Errorf("the span %s is there %d times", span.Name(), n)
					}
				}
			}
			t.Logf("%d batches were refused", s.eng.Stats().Overloads)
		})
	}
}
