package otlptest

import (
	"testing"

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
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The variables that the documentation gives are all that an SDK needs.
func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env       func(*service) map[string]string
		exporters func(*testing.T) (sdktrace.SpanExporter, sdkmetric.Exporter, sdklog.Exporter)
	}{
		"HTTP": {
			func(s *service) map[string]string {
				return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.http + "/otlp/1/app/" + secret}
			},
			overHTTP,
		},
		"HTTP, endpoint of each signal": {
			func(s *service) map[string]string {
				address := s.http + "/otlp/1/app/" + secret
				return map[string]string{
					"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": address, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": address,
					"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": address + "/v1/logs",
				}
			},
			overHTTP,
		},
		"HTTP, token in the headers": {
			func(s *service) map[string]string {
				return map[string]string{
					"OTEL_EXPORTER_OTLP_ENDPOINT": s.http + "/otlp/1/app", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20" + secret,
					"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
				}
			},
			overHTTP,
		},
		"gRPC": {
			func(s *service) map[string]string {
				return map[string]string{
					"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + s.grpc, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20" + secret,
				}
			},
			overGRPC,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, nil)
			for key, value := range c.env(s) {
				t.Setenv(key, value)
			}
			traces, metrics, logs := c.exporters(t)
			ctx := t.Context()
			tracing := sdktrace.NewTracerProvider(sdktrace.WithBatcher(traces))
			metering := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
			logging := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(logs)))
			_, span := tracing.Tracer("test").Start(ctx, "work")
			span.End()
			must(metering.Meter("test").Int64Counter("count"))(t).Add(ctx, 1)
			var r log.Record
			r.SetBody(attribute.StringValue("done"))
			logging.Logger("test").Emit(ctx, r)
			for _, shutdown := range []error{tracing.Shutdown(ctx), metering.Shutdown(ctx), logging.Shutdown(ctx)} {
				if shutdown != nil {
					t.Error(shutdown)
				}
			}
			for signal, field := range map[string][2]string{"traces": {"name", "work"}, "metrics": {"metric_name", "count"}, "logs": {"body", "done"}} {
				records := s.records(signal)
				if len(records) != 1 {
					t.Errorf("got %d rows of %s, want 1", len(records), signal)
					continue
				}
				want(t, records[0], field[0], field[1])
			}
		})
	}
}

func overHTTP(t *testing.T) (sdktrace.SpanExporter, sdkmetric.Exporter, sdklog.Exporter) {
	ctx := t.Context()
	return must(otlptracehttp.New(ctx))(t), must(otlpmetrichttp.New(ctx))(t), must(otlploghttp.New(ctx))(t)
}

func overGRPC(t *testing.T) (sdktrace.SpanExporter, sdkmetric.Exporter, sdklog.Exporter) {
	ctx := t.Context()
	return must(otlptracegrpc.New(ctx))(t), must(otlpmetricgrpc.New(ctx))(t), must(otlploggrpc.New(ctx))(t)
}
