package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// metrics serves the metrics of docs/metrics.md to Prometheus.
type metrics struct {
	provider *sdkmetric.MeterProvider
	handler  http.Handler
}

func newMetrics() (*metrics, error) {
	registry := prometheus.NewRegistry() // a private one, without other metrics of the process
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	return &metrics{
		provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}),
	}, nil
}

func (m *metrics) meter() metric.Meter { return m.provider.Meter("github.com/forebay/forebay") }
