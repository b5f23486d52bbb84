package otlptest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/localdisk"
)

// slowDisk is a disk whose syncs wait while it is held.
type slowDisk struct {
	mu   sync.Mutex
	hold chan struct{} // closed to continue, nil if not held
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

// names are the names of the records of a batch.
func names(batch int) (list []string) {
	for i := range 10 {
		list = append(list, fmt.Sprintf("%d/%d", batch, i))
	}
	return list
}

// fill makes a record so large that a few batches fill the memory of the engine.
var fill = strings.Repeat("x", 30<<10)

func spanBatch(batch int) []sdktrace.ReadOnlySpan {
	var stubs tracetest.SpanStubs
	for i, name := range names(batch) {
		stubs = append(stubs, tracetest.SpanStub{
			Name: name,
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID{1, byte(batch)}, SpanID: trace.SpanID{1, byte(i)},
			}),
			Attributes: []attribute.KeyValue{attribute.String("fill", fill)},
		})
	}
	return stubs.Snapshots()
}

// kept is an exporter that keeps records. Only the SDK can make some.
type kept struct{ records []sdklog.Record }

func (k *kept) Export(_ context.Context, records []sdklog.Record) error {
	for _, r := range records {
		k.records = append(k.records, r.Clone())
	}
	return nil
}
func (*kept) Shutdown(context.Context) error   { return nil }
func (*kept) ForceFlush(context.Context) error { return nil }

func logBatch(batch int) []sdklog.Record {
	var k kept
	logger := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(&k))).Logger("")
	for _, name := range names(batch) {
		var r log.Record
		r.SetEventName(name)
		r.SetBody(attribute.StringValue(fill))
		logger.Emit(context.Background(), r)
	}
	return k.records
}

func metricBatch(batch int) *metricdata.ResourceMetrics {
	var metrics []metricdata.Metrics
	for _, name := range names(batch) {
		metrics = append(metrics, metricdata.Metrics{Name: name, Data: metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{
			{Value: 1, Attributes: attribute.NewSet(attribute.String("fill", fill))},
		}}})
	}
	return &metricdata.ResourceMetrics{Resource: resource.Empty(), ScopeMetrics: []metricdata.ScopeMetrics{{Metrics: metrics}}}
}

// retrying is an exporter of one signal that resends refused batches.
type retrying struct {
	export   func(ctx context.Context, batch int) error
	shutdown func(context.Context) error
}

const (
	firstRetry = time.Millisecond
	lastRetry  = time.Minute
)

// retryingExporters are the exporters of the SDK, one for each protocol and signal.
var retryingExporters = map[string]map[string]func(*service) (retrying, error){
	"HTTP": {
		"traces": func(s *service) (retrying, error) {
			return retryingSpans(otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(s.path("traces")),
				otlptracehttp.WithTimeout(lastRetry), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
					Enabled: true, InitialInterval: firstRetry, MaxInterval: time.Second, MaxElapsedTime: lastRetry,
				})))
		},
		"logs": func(s *service) (retrying, error) {
			return retryingLogs(otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(s.path("logs")),
				otlploghttp.WithTimeout(lastRetry), otlploghttp.WithRetry(otlploghttp.RetryConfig{
					Enabled: true, InitialInterval: firstRetry, MaxInterval: time.Second, MaxElapsedTime: lastRetry,
				})))
		},
		"metrics": func(s *service) (retrying, error) {
			return retryingMetrics(otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(s.path("metrics")),
				otlpmetrichttp.WithTimeout(lastRetry), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
					Enabled: true, InitialInterval: firstRetry, MaxInterval: time.Second, MaxElapsedTime: lastRetry,
				})))
		},
	},
	"gRPC": {
		"traces": func(s *service) (retrying, error) {
			return retryingSpans(otlptracegrpc.New(context.Background(), otlptracegrpc.WithEndpoint(s.grpc), otlptracegrpc.WithInsecure(),
				otlptracegrpc.WithHeaders(bearer), otlptracegrpc.WithTimeout(lastRetry), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
					Enabled: true, InitialInterval: firstRetry, MaxInterval: time.Second, MaxElapsedTime: lastRetry,
				})))
		},
		"logs": func(s *service) (retrying, error) {
			return retryingLogs(otlploggrpc.New(context.Background(), otlploggrpc.WithEndpoint(s.grpc), otlploggrpc.WithInsecure(),
				otlploggrpc.WithHeaders(bearer), otlploggrpc.WithTimeout(lastRetry), otlploggrpc.WithRetry(otlploggrpc.RetryConfig{
					Enabled: true, InitialInterval: firstRetry, MaxInterval: time.Second, MaxElapsedTime: lastRetry,
				})))
		},
		"metrics": func(s *service) (retrying, error) {
			return retryingMetrics(otlpmetricgrpc.New(context.Background(), otlpmetricgrpc.WithEndpoint(s.grpc), otlpmetricgrpc.WithInsecure(),
				otlpmetricgrpc.WithHeaders(bearer), otlpmetricgrpc.WithTimeout(lastRetry), otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{
					Enabled: true, InitialInterval: firstRetry, MaxInterval: time.Second, MaxElapsedTime: lastRetry,
				})))
		},
	},
}

// path is the endpoint of a signal over HTTP.
func (s *service) path(signal string) string {
	return s.http + "/otlp/1/app/" + secret + "/v1/" + signal
}

func retryingSpans[E sdktrace.SpanExporter](e E, err error) (retrying, error) {
	return retrying{func(ctx context.Context, b int) error { return e.ExportSpans(ctx, spanBatch(b)) }, e.Shutdown}, err
}

func retryingLogs[E sdklog.Exporter](e E, err error) (retrying, error) {
	return retrying{func(ctx context.Context, b int) error { return e.Export(ctx, logBatch(b)) }, e.Shutdown}, err
}

func retryingMetrics[E sdkmetric.Exporter](e E, err error) (retrying, error) {
	return retrying{func(ctx context.Context, b int) error { return e.Export(ctx, metricBatch(b)) }, e.Shutdown}, err
}

// An engine that is full refuses batches until the disk continues. The exporter's own retries deliver all of them,
// each exactly once.
func TestRetryAfterOverload(t *testing.T) {
	nameOf := map[string]string{"traces": "name", "logs": "event_name", "metrics": "metric_name"}
	for protocol, signals := range retryingExporters {
		for signal, open := range signals {
			t.Run(protocol+"/"+signal, func(t *testing.T) {
				disk := new(slowDisk)
				s := newService(t, func(o *forebay.Options) {
					o.Buffer = localdisk.On(o.Buffer, errorfs.Wrap(vfs.NewMem(), disk))
					o.Buffer.MaxPendingBytes = 1 << 20
					o.Buffer.AdmissionWait = -1
				})
				disk.pause()
				const batches = 12
				var wg sync.WaitGroup
				failed := make(chan error, batches)
				for b := range batches {
					exporter := must(open(s))(t) // its own, as one of metrics sends one batch at a time
					wg.Go(func() {
						if err := errors.Join(exporter.export(t.Context(), b), exporter.shutdown(t.Context())); err != nil {
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
				seen := make(map[string]int)
				for _, r := range s.records(signal) {
					name, _ := r[nameOf[signal]].(string)
					seen[name]++
				}
				for b := range batches {
					for _, name := range names(b) {
						if n := seen[name]; n != 1 {
							t.Errorf("%s is there %d times, want 1", name, n)
						}
					}
				}
				t.Logf("%d batches were refused", s.eng.Stats().Overloads)
			})
		}
	}
}
