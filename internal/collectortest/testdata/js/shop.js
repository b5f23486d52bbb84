// Sends spans as protobuf over HTTP, logs as JSON over HTTP, and points over gRPC. The exporters take their addresses and the token from the
// environment.
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { SeverityNumber } from '@opentelemetry/api-logs';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-grpc';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

const count = Number(process.argv[2]);
const resource = resourceFromAttributes({ 'service.name': 'js-shop' });
const tracing = new BasicTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
const logs = new LoggerProvider({ resource, processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })] });
const metering = new MeterProvider({ resource, readers: [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })] });

const tracer = tracing.getTracer('shop');
const logger = logs.getLogger('shop');
const orders = metering.getMeter('shop').createCounter('orders');
const amounts = metering.getMeter('shop').createHistogram('amount');
for (let n = 0; n < count; n++) {
  const span = tracer.startSpan('order', { kind: SpanKind.SERVER, attributes: { 'order.n': n } });
  if (n % 2) span.setStatus({ code: SpanStatusCode.ERROR, message: 'declined' });
  span.addEvent('paid');
  span.end();
  logger.emit({ severityNumber: SeverityNumber.INFO, severityText: 'INFO', body: n % 2 ? { order: n } : `order ${n}`, attributes: { 'order.n': n } });
  orders.add(1);
  amounts.record(n);
}
await Promise.all([tracing.forceFlush(), logs.forceFlush(), metering.forceFlush()]);
await Promise.all([tracing.shutdown(), logs.shutdown(), metering.shutdown()]);
