package collectortest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/plog"
)

// tableConfig is the configuration of an exporter that stores logs in a table.
type tableConfig struct {
	Where string                                                   `mapstructure:"where"`
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	Retry configretry.BackOffConfig                                `mapstructure:"retry_on_failure"`
}

// table stores batches. When put returns nil the rows of the batch are durable. After an error none of them is there, as far as it knows.
type table interface {
	put(ctx context.Context, batch plog.Logs) error
	close() error
}

// newTableFactory makes an exporter as the one for ClickHouse is made. Queue, batches and retries are exporterhelper's, and each batch is one
// insert. It prints the number of rows after each.
func newTableFactory(name string, open func(where string, consumers int) (table, error)) exporter.Factory {
	defaults := func() component.Config {
		return &tableConfig{Queue: configoptional.Some(exporterhelper.NewDefaultQueueConfig()), Retry: configretry.NewDefaultBackOffConfig()}
	}
	logs := func(ctx context.Context, set exporter.Settings, c component.Config) (exporter.Logs, error) {
		cfg, ok := c.(*tableConfig)
		if !ok {
			return nil, fmt.Errorf("%T is not the configuration of a table", c)
		}
		t, err := open(cfg.Where, cfg.Queue.GetOrInsertDefault().NumConsumers)
		if err != nil {
			return nil, err
		}
		put := func(ctx context.Context, batch plog.Logs) error {
			rows := batch.LogRecordCount()
			if err := t.put(ctx, batch); err != nil {
				return err
			}
			fmt.Println(rows)
			return nil
		}
		return exporterhelper.NewLogs(ctx, set, cfg, put,
			// More than any batch takes. A batch that is ended by the default of 5 s begins again.
			exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{Timeout: time.Minute}),
			exporterhelper.WithRetry(cfg.Retry), exporterhelper.WithQueue(cfg.Queue),
			exporterhelper.WithShutdown(func(context.Context) error { return t.close() }),
		)
	}
	return exporter.NewFactory(component.MustNewType(name), defaults, exporter.WithLogs(logs, component.StabilityLevelDevelopment))
}

// tally adds up the rows that a Collector has stored. It reads the lines that the exporter of a table prints.
type tally struct {
	mu         sync.Mutex
	line       []byte // the start of one
	rows, want int64
	all        chan struct{} // closed when rows reaches want
}

func newTally(want int64) *tally { return &tally{want: want, all: make(chan struct{})} }

func (t *tally) add(rows int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows += rows
	if t.rows >= t.want && t.rows-rows < t.want {
		close(t.all)
	}
}

// Write is called by one goroutine.
func (t *tally) Write(p []byte) (int, error) {
	t.line = append(t.line, p...)
	for {
		line, rest, ok := bytes.Cut(t.line, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		rows, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil {
			return 0, err
		}
		t.add(rows)
		t.line = rest
	}
}

// wait returns when all rows are stored.
func (t *tally) wait(c *collector) {
	c.t.Helper()
	select {
	case <-t.all:
	case <-c.ended:
		c.t.Fatalf("the Collector has ended: %v\n%s", c.err, &c.logs)
	case <-time.After(5 * time.Minute):
		t.mu.Lock()
		defer t.mu.Unlock()
		c.t.Fatalf("%d of %d rows are stored\n%s", t.rows, t.want, &c.logs)
	}
}
