// Package metertest is a metric.Meter for tests. It keeps all recorded values, and asks the observable instruments when
// a test collects. The library depends on the API of the meters alone, and this package keeps its tests from needing more.
package metertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Meter keeps measurements. It is safe for concurrent use.
type Meter struct {
	noop.Meter

	mu        sync.Mutex
	units     map[string]string
	values    map[string]float64
	callbacks map[int]metric.Callback
	next      int
}

// New returns a meter without measurements.
func New() *Meter {
	return &Meter{units: map[string]string{}, values: map[string]float64{}, callbacks: map[int]metric.Callback{}}
}

// Units returns the units of all instruments by name.
func (m *Meter) Units() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.units)
}

// Collect returns all values. The keys are names with their attributes, as in "rows{sink=a,source=b}". The value of a
// histogram is the number of its measurements.
func (m *Meter) Collect() map[string]float64 {
	m.mu.Lock()
	calls, out := slices.Collect(maps.Values(m.callbacks)), maps.Clone(m.values)
	m.mu.Unlock()
	for _, c := range calls {
		_ = c(context.Background(), &observer{values: out})
	}
	return out
}

// Callbacks is the number of callbacks that are registered.
func (m *Meter) Callbacks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.callbacks)
}

func key(name string, set attribute.Set) string {
	return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
}

func (m *Meter) add(name string, set attribute.Set, v float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key(name, set)] += v
}

func (m *Meter) instrument(name, unit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, twice := m.units[name]; twice {
		panic(fmt.Sprintf("instrument %s is made twice", name))
	}
	m.units[name] = unit
}

type counter struct {
	noop.Int64Counter
	m    *Meter
	name string
}

func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	c.m.add(c.name, metric.NewAddConfig(opts).Attributes(), float64(n))
}

// Int64Counter implements [metric.Meter].
func (m *Meter) Int64Counter(name string, opts ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	c := metric.NewInt64CounterConfig(opts...)
	m.instrument(name, c.Unit())
	return counter{m: m, name: name}, nil
}

type histogram struct {
	noop.Float64Histogram
	m    *Meter
	name string
}

func (h histogram) Record(_ context.Context, v float64, opts ...metric.RecordOption) {
	if v < 0 {
		panic(fmt.Sprintf("%s: %v", h.name, v))
	}
	h.m.add(h.name, metric.NewRecordConfig(opts).Attributes(), 1)
}

// Float64Histogram implements [metric.Meter].
func (m *Meter) Float64Histogram(name string, opts ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(opts...)
	m.instrument(name, c.Unit())
	return histogram{m: m, name: name}, nil
}

// named is the part of an observable instrument that observer needs.
type named string

func (n named) String() string { return string(n) }

// Int64ObservableCounter implements [metric.Meter].
func (m *Meter) Int64ObservableCounter(
	name string, opts ...metric.Int64ObservableCounterOption,
) (metric.Int64ObservableCounter, error) {
	m.instrument(name, metric.NewInt64ObservableCounterConfig(opts...).Unit())
	return struct {
		noop.Int64ObservableCounter
		named
	}{named: named(name)}, nil
}

// Int64ObservableGauge implements [metric.Meter].
func (m *Meter) Int64ObservableGauge(
	name string, opts ...metric.Int64ObservableGaugeOption,
) (metric.Int64ObservableGauge, error) {
	m.instrument(name, metric.NewInt64ObservableGaugeConfig(opts...).Unit())
	return struct {
		noop.Int64ObservableGauge
		named
	}{named: named(name)}, nil
}

// Float64ObservableGauge implements [metric.Meter].
func (m *Meter) Float64ObservableGauge(
	name string, opts ...metric.Float64ObservableGaugeOption,
) (metric.Float64ObservableGauge, error) {
	m.instrument(name, metric.NewFloat64ObservableGaugeConfig(opts...).Unit())
	return struct {
		noop.Float64ObservableGauge
		named
	}{named: named(name)}, nil
}

type registration struct {
	noop.Registration
	m  *Meter
	id int
}

func (r registration) Unregister() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if delete(r.m.callbacks, r.id); len(r.m.callbacks) == 0 {
		clear(r.m.units) // whoever made the instruments is closed, and may be opened again
	}
	return nil
}

// RegisterCallback implements [metric.Meter].
func (m *Meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	m.callbacks[m.next] = f
	return registration{m: m, id: m.next}, nil
}

type observer struct {
	noop.Observer
	values map[string]float64
}

func (o *observer) observe(of any, opts []metric.ObserveOption, v float64) {
	k := key(of.(fmt.Stringer).String(), metric.NewObserveConfig(opts).Attributes())
	if _, twice := o.values[k]; twice {
		panic(k + " is observed twice")
	}
	o.values[k] = v
}

func (o *observer) ObserveInt64(of metric.Int64Observable, v int64, opts ...metric.ObserveOption) {
	o.observe(of, opts, float64(v))
}

func (o *observer) ObserveFloat64(of metric.Float64Observable, v float64, opts ...metric.ObserveOption) {
	o.observe(of, opts, v)
}
