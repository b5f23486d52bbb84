// Command otlp is a toy shop that is instrumented with OpenTelemetry and keeps its own telemetry: it exports to a Forebay in
// the same process and then prints the rows of its spans, metrics and logs.
//
//	cd examples/otlp && go run .
//
// It is a separate module, so that the library does not depend on the SDK.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

func main() {
	folder := flag.String("dir", "", "data directory (default: a temporary one, which is removed)")
	orders := flag.Int("orders", 3, "number of orders that the shop takes")
	flag.Parse()
	if err := run(context.Background(), *folder, *orders, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string, orders int, out io.Writer) (err error) {
	if folder == "" {
		if folder, err = os.MkdirTemp("", "forebay-otlp-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	}
	tables := dir.Tables(filepath.Join(folder, "tables"))
	eng, err := forebay.Open(folder, forebay.Options{
		Target: tables, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	src := source()
	if err := eng.Define(ctx, src); err != nil {
		return err
	}

	// Forebay listens as it would in a process of its own.
	server, err := web.Local(stream.Ingest(eng, stream.Options{}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx), server.Err()) }()

	// The exporters get what OTEL_EXPORTER_OTLP_ENDPOINT would be, with the signal that they would append.
	if err := work(ctx, "http://"+server.Addr+"/otlp/1/"+src.ID+"/"+src.Secret, orders); err != nil {
		return err
	}
	if err := eng.Flush(ctx, src.ID); err != nil {
		return err
	}
	for _, s := range src.Sinks {
		if err := show(out, tables, s.Table); err != nil {
			return err
		}
	}
	return nil
}

// source has a sink for each signal. The secret of a real one is long and random.
func source() forebay.Source {
	sink := func(signal forebay.Signal, columns ...mapping.Column) forebay.Sink {
		return forebay.Sink{
			ID: string(signal), AllowedSignals: []forebay.Signal{signal},
			Table: forebay.Table{ID: "in.c-shop." + string(signal), Columns: columns},
		}
	}
	text := func(name, path string) mapping.Column {
		return mapping.Path(name, path, mapping.RawString(), mapping.Default(""))
	}
	return forebay.Source{ID: "shop", Type: forebay.OTLP, Secret: "local-secret", Sinks: []forebay.Sink{
		sink(forebay.SignalTraces, text("name", "name"), text("order", `attributes["order.id"]`), text("status", "status_code"),
			mapping.Template("child", `if Body("parent_span_id", "") == "" then "no" else "yes"`, mapping.RawString())),
		sink(forebay.SignalMetrics, text("name", "metric_name"), text("kind", "metric_type"), text("value", "value"), text("count", "count"), text("sum", "sum")),
		sink(forebay.SignalLogs, text("severity", "severity_text"), text("message", "body"), text("order", `attributes["order.id"]`),
			text("service", `resource["service.name"]`)),
	}}
}

// work is the instrumented shop. When it returns the exporters have delivered everything.
func work(ctx context.Context, endpoint string, orders int) (err error) {
	res := resource.NewSchemaless(attribute.String("service.name", "shop"))
	traces, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
	if err != nil {
		return err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(endpoint+"/v1/metrics"))
	if err != nil {
		return err
	}
	logs, err := otlploghttp.New(ctx, otlploghttp.WithEndpointURL(endpoint+"/v1/logs"))
	if err != nil {
		return err
	}
	tracing := sdktrace.NewTracerProvider(sdktrace.WithBatcher(traces), sdktrace.WithResource(res))
	metering := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)), sdkmetric.WithResource(res))
	logging := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(logs)), sdklog.WithResource(res))
	defer func() {
		err = errors.Join(err, tracing.Shutdown(ctx), metering.Shutdown(ctx), logging.Shutdown(ctx))
	}()

	const scope = "github.com/forebay/forebay/examples/otlp"
	tracer, meter, logger := tracing.Tracer(scope), metering.Meter(scope), logging.Logger(scope)
	count, err := meter.Int64Counter("shop.orders", metric.WithUnit("{order}"))
	if err != nil {
		return err
	}
	amounts, err := meter.Int64Histogram("shop.order.amount", metric.WithUnit("{cent}"))
	if err != nil {
		return err
	}
	for i := range orders {
		id := attribute.Int("order.id", i+1)
		ctx, order := tracer.Start(ctx, "order", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(id))
		_, payment := tracer.Start(ctx, "payment", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(id))
		var r log.Record
		r.AddAttributes(id)
		if i%3 == 2 {
			payment.SetStatus(codes.Error, "card declined")
			r.SetSeverity(log.SeverityWarn)
			r.SetSeverityText("WARN")
			r.SetBody(attribute.StringValue("card declined"))
		} else {
			r.SetSeverity(log.SeverityInfo)
			r.SetSeverityText("INFO")
			r.SetBody(attribute.StringValue("paid"))
			amounts.Record(ctx, rand.Int64N(10_000))
		}
		logger.Emit(ctx, r)
		payment.End()
		order.End()
		count.Add(ctx, 1)
	}
	return nil
}

func show(out io.Writer, tables *dir.TableDir, table forebay.Table) error {
	var names []string
	for _, c := range table.Columns {
		names = append(names, c.Name)
	}
	var rows [][]string
	for row, err := range tables.Rows(table.ID) {
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, slices.Compare[[]string])
	fmt.Fprintf(out, "%s: %s\n", table.ID, strings.Join(names, ", "))
	for _, row := range rows {
		fmt.Fprintf(out, "  %s\n", strings.Join(row, ", "))
	}
	return nil
}
