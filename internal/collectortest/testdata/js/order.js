// A program that knows the API only: its SDK is in a file that is imported first.
import { metrics, SpanKind, trace } from '@opentelemetry/api';
import { logs, SeverityNumber } from '@opentelemetry/api-logs';

const tracer = trace.getTracer('shop');
tracer.startActiveSpan('order', { kind: SpanKind.SERVER }, (order) => {
  tracer.startActiveSpan('payment', (payment) => {
    logs.getLogger('shop').emit({ severityNumber: SeverityNumber.INFO, severityText: 'INFO', body: 'paid' });
    payment.end();
  });
  metrics.getMeter('shop').createCounter('orders').add(1);
  order.end();
});
