// Command otlp is a toy shop that is instrumented with OpenTelemetry and keeps its own telemetry. It exports to a Forebay in
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

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
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

	// Forebay listens as it would in a separate process.
	server, err := web.Local(stream.Ingest(eng, stream.Options{}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx), server.Err()) }()

	// A program whose telemetry goes elsewhere gets these variables from outside.
	err = errors.Join(os.Setenv("OTEL_SERVICE_NAME", src.ID), os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+server.Addr+"/otlp/1/"+src.ID+"/"+src.Secret))
	if err != nil {
		return err
	}
	stop, err := instrument(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(work(ctx, orders), stop(ctx)); err != nil { // when it has stopped, everything is delivered
		return err
	}
	if err := eng.Flush(ctx, src.ID); err != nil {
		return err
	}
	for _, s := range src.Sinks {
		if err := show(out, tables, s); err != nil {
			return err
		}
	}
	return nil
}

// source has a table for each signal, which gets the columns that a later release adds. The secret of a real one is long and random.
func source() forebay.Source {
	sink := func(signal forebay.Signal, columns mapping.Columns) forebay.Sink {
		return forebay.Sink{
			ID: string(signal), AllowedSignals: []forebay.Signal{signal},
			Table: forebay.Table{ID: "in.c-shop." + string(signal), Columns: columns, Extend: true},
		}
	}
	return forebay.Source{ID: "shop", Type: forebay.OTLP, Secret: "local-secret", Sinks: []forebay.Sink{
		sink(forebay.SignalTraces, otlpflat.TracesTable()),
		sink(forebay.SignalMetrics, otlpflat.MetricsTable()),
		sink(forebay.SignalLogs, otlpflat.LogsTable()),
	}}
}

// instrument creates the providers. The exporters and the resource read the environment variables OTEL_….
func instrument(ctx context.Context) (stop func(context.Context) error, err error) {
	traces, err := otlptracehttp.New(ctx) // or from otlptracegrpc: Go reads no variable for the protocol
	if err != nil {
		return nil, err
	}
	metrics, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, err
	}
	logs, err := otlploghttp.New(ctx)
	if err != nil {
		return nil, err
	}
	tracing := sdktrace.NewTracerProvider(sdktrace.WithBatcher(traces))
	metering := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
	logging := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(logs)))
	otel.SetTracerProvider(tracing)
	otel.SetMeterProvider(metering)
	otel.SetLoggerProvider(logging)
	return func(ctx context.Context) error {
		return errors.Join(tracing.Shutdown(ctx), metering.Shutdown(ctx), logging.Shutdown(ctx))
	}, nil
}

// work is the instrumented shop.
func work(ctx context.Context, orders int) error {
	const scope = "github.com/forebay/forebay/examples/otlp"
	tracer, meter, logger := otel.Tracer(scope), otel.Meter(scope), otel.Logger(scope)
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

// shown are the columns that are printed.
var shown = map[string][]string{
	"traces":  {"ServiceName", "SpanName", "SpanKind", "StatusCode", "StatusMessage", "SpanAttributes"},
	"metrics": {"ServiceName", "MetricName", "MetricType", "Value", "Count", "BucketCounts"},
	"logs":    {"ServiceName", "SeverityText", "Body", "LogAttributes"},
}

func show(out io.Writer, tables *dir.TableDir, sink forebay.Sink) error {
	places := map[string]int{}
	for i, c := range sink.Table.Columns {
		places[c.Name] = i
	}
	var lines []string
	for row, err := range tables.Rows(sink.Table.ID) {
		if err != nil {
			return err
		}
		var cells []string
		for _, name := range shown[sink.ID] {
			cells = append(cells, row[places[name]])
		}
		lines = append(lines, strings.Join(cells, ", "))
	}
	slices.Sort(lines)
	fmt.Fprintf(out, "%s: %s\n", sink.Table.ID, strings.Join(shown[sink.ID], ", "))
	for _, line := range lines {
		fmt.Fprintf(out, "  %s\n", line)
	}
	return nil
}
