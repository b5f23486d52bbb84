// Emits one log line many times in a loop through the simple processor, which exports each record by itself. Many records have the same
// millisecond and so the same bytes.
import { SeverityNumber } from '@opentelemetry/api-logs';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { LoggerProvider, SimpleLogRecordProcessor } from '@opentelemetry/sdk-logs';

const logs = new LoggerProvider({
  resource: resourceFromAttributes({ 'service.name': 'js-loop' }),
  processors: [new SimpleLogRecordProcessor({ exporter: new OTLPLogExporter({ concurrencyLimit: 1000 }) })],
});
const logger = logs.getLogger('loop');
for (let n = 0; n < Number(process.argv[2]); n++) {
  logger.emit({ severityNumber: SeverityNumber.INFO, severityText: 'INFO', body: 'tick' });
}
await logs.forceFlush();
await logs.shutdown();
