package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// The configurations of the Collector. The second is the one of docs/telemetry.md.
const (
	asShipped = `
receivers: {otlp: {protocols: {http: {endpoint: ADDRESS}}}}
processors: {batch: {}}
exporters: {rows: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines: {logs: {receivers: [otlp], processors: [batch], exporters: [rows]}}
`
	onDisk = `
receivers: {otlp: {protocols: {http: {endpoint: ADDRESS}}}}
extensions: {file_storage: {directory: FOLDER, fsync: true}}
exporters:
  rows:
    retry_on_failure: {max_elapsed_time: 0}
    sending_queue:
      storage: file_storage
      sizer: items
      queue_size: 1000000
      batch: {min_size: 4096, max_size: 8192, flush_timeout: 200ms}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  extensions: [file_storage]
  pipelines: {logs: {receivers: [otlp], exporters: [rows]}}
`
)

func collector(config string) func(place) error {
	return func(at place) error {
		config := strings.NewReplacer("ADDRESS", at.Addr, "FOLDER", at.Dir).Replace(config)
		settings := otelcol.CollectorSettings{
			BuildInfo: component.BuildInfo{Command: "otelcol"},
			Factories: func() (f otelcol.Factories, err error) {
				if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
					return f, err
				}
				if f.Processors, err = otelcol.MakeFactoryMap[processor.Factory](batchprocessor.NewFactory()); err != nil {
					return f, err
				}
				if f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](rowsExporter(at)); err != nil {
					return f, err
				}
				f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](filestorage.NewFactory())
				f.Telemetry = otelconftelemetry.NewFactory()
				return f, err
			},
			ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
				URIs: []string{"yaml:" + config}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
			}},
		}
		c, err := otelcol.NewCollector(settings)
		if err != nil {
			return err
		}
		return c.Run(context.Background())
	}
}

// rowsConfig has the queue and retries that exporters of the Collector have.
type rowsConfig struct {
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	Retry configretry.BackOffConfig                                `mapstructure:"retry_on_failure"`
}

// rowsExporter stores each batch with one COPY. It is made as exporters for databases are, because none is for PostgreSQL.
func rowsExporter(at place) exporter.Factory {
	defaults := func() component.Config {
		return &rowsConfig{Queue: configoptional.Some(exporterhelper.NewDefaultQueueConfig()), Retry: configretry.NewDefaultBackOffConfig()}
	}
	logs := func(ctx context.Context, set exporter.Settings, c component.Config) (exporter.Logs, error) {
		cfg, ok := c.(*rowsConfig)
		if !ok {
			return nil, fmt.Errorf("%T is not the configuration of rows", c)
		}
		pool, err := openPool(at, int32(cfg.Queue.GetOrInsertDefault().NumConsumers))
		if err != nil {
			return nil, err
		}
		store := func(ctx context.Context, batch plog.Logs) error {
			var rows []row
			for _, rl := range batch.ResourceLogs().All() {
				for _, sl := range rl.ScopeLogs().All() {
					for _, record := range sl.LogRecords().All() {
						r, err := newRow([]byte(record.Body().Str()))
						if err != nil {
							return err
						}
						rows = append(rows, r)
					}
				}
			}
			return copyRows(ctx, pool, rows)
		}
		return exporterhelper.NewLogs(ctx, set, cfg, store, exporterhelper.WithRetry(cfg.Retry), exporterhelper.WithQueue(cfg.Queue),
			exporterhelper.WithShutdown(func(context.Context) error { pool.Close(); return nil }))
	}
	return exporter.NewFactory(component.MustNewType("rows"), defaults, exporter.WithLogs(logs, component.StabilityLevelDevelopment))
}
