package otlptest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
	"github.com/forebay/forebay/trigger"
)

var cycles = flag.Int("cycles", 6, "how often TestKilledProcess kills the engine")

const killedSource = "killed"

// killedSources are an OTLP source with a table for each signal, and one of events.
func killedSources() []forebay.Source {
	settings := forebay.Settings{Upload: trigger.Conditions{Count: 500, Interval: time.Second, Size: 1 << 20}}
	app := forebay.Source{ID: killedSource, Type: forebay.OTLP, Secret: secret, Settings: settings}
	for signal, path := range map[forebay.Signal]string{
		forebay.SignalLogs: "event_name", forebay.SignalMetrics: "metric_name", forebay.SignalTraces: "name",
	} {
		app.Sinks = append(app.Sinks, forebay.Sink{
			ID: string(signal), AllowedSignals: []forebay.Signal{signal},
			Table: forebay.Table{ID: "in.c-killed." + string(signal), Columns: mapping.Columns{mapping.Path("name", path, mapping.RawString())}},
		})
	}
	return []forebay.Source{app, {ID: "web", Secret: secret, Settings: settings, Sinks: []forebay.Sink{
		{ID: "a", Table: forebay.Table{ID: "in.c-killed.events", Columns: mapping.Columns{mapping.Path("name", "name", mapping.RawString())}}},
		{ID: "b", Table: forebay.Table{ID: "in.c-killed.copies", Columns: mapping.Columns{mapping.Path("name", "name", mapping.RawString())}}},
	}}}
}

// serveEngine is the engine process. It drains and ends when its standard input is closed. Its listeners are inherited, so that the address outlives
// the process and senders can come back to it.
func serveEngine(dir string) error {
	web, err := net.FileListener(os.NewFile(3, "http"))
	if err != nil {
		return err
	}
	rpc, err := net.FileListener(os.NewFile(4, "grpc"))
	if err != nil {
		return err
	}
	eng, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, src := range killedSources() {
		if err := eng.Define(ctx, src); err != nil {
			return err
		}
	}
	srv := stream.Server("", stream.Ingest(eng, stream.Options{}))
	go func() { _ = srv.Serve(web) }()
	calls := otlpgrpc.Server(eng, otlpgrpc.Options{})
	go func() { _ = calls.Serve(rpc) }()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // any end is the end
	calls.Stop()
	return errors.Join(srv.Close(), eng.FlushAll(ctx), eng.Close())
}

func startEngine(t *testing.T, dir string, listeners ...*os.File) *proctest.Process {
	t.Helper()
	cmd := proctest.Command(t.Name(), dir)
	cmd.ExtraFiles = listeners
	p := proctest.Run(t, cmd)
	if line := p.Line(); line != "ready" {
		t.Fatalf("the engine process says %q", line)
	}
	return p
}

// listen returns a listener's file for processes to come, and its address.
func listen(t *testing.T) (*os.File, string) {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := must(l.(*net.TCPListener).File())(t)
	t.Cleanup(func() { f.Close() })
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return f, address
}

// killedNames are the names of the records of a batch.
func killedNames(sender string, batch int) (list []string) {
	for i := range 5 {
		list = append(list, fmt.Sprintf("%s/%d/%d", sender, batch, i))
	}
	return list
}

// sending is what one sender of the test does with a batch. Once made, the batch is sent again as it is until it is acknowledged.
type sending func(names []string) (attempt func(context.Context) error)

func sendSpans(e sdktrace.SpanExporter, err error) (sending, error) {
	return func(names []string) func(context.Context) error {
		var stubs tracetest.SpanStubs
		now := time.Now()
		for i, name := range names {
			stubs = append(stubs, tracetest.SpanStub{Name: name, StartTime: now, EndTime: now, SpanContext: trace.NewSpanContext(
				trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1, byte(i)}})})
		}
		spans := stubs.Snapshots()
		return func(ctx context.Context) error { return e.ExportSpans(ctx, spans) }
	}, err
}

func sendLogs(e sdklog.Exporter, err error) (sending, error) {
	return func(names []string) func(context.Context) error {
		var k kept
		logger := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(&k))).Logger("")
		for _, name := range names {
			var r log.Record
			r.SetEventName(name)
			logger.Emit(context.Background(), r)
		}
		return func(ctx context.Context) error { return e.Export(ctx, k.records) }
	}, err
}

type metricExporter interface {
	Export(context.Context, *metricdata.ResourceMetrics) error
}

func sendMetrics(e metricExporter, err error) (sending, error) {
	return func(names []string) func(context.Context) error {
		var metrics []metricdata.Metrics
		now := time.Now()
		for _, name := range names {
			metrics = append(metrics, metricdata.Metrics{Name: name, Data: metricdata.Gauge[int64]{
				DataPoints: []metricdata.DataPoint[int64]{{Time: now, Value: 1}},
			}})
		}
		batch := &metricdata.ResourceMetrics{Resource: resource.Empty(), ScopeMetrics: []metricdata.ScopeMetrics{{Metrics: metrics}}}
		return func(ctx context.Context) error { return e.Export(ctx, batch) }
	}, err
}

// sendEvents posts each event with its own key.
func sendEvents(url string) sending {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	return func(names []string) func(context.Context) error {
		return func(ctx context.Context) error {
			for len(names) > 0 {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(fmt.Sprintf(`{"name":%q}`, names[0])))
				if err != nil {
					return err
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Idempotency-Key", names[0])
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return errors.New(resp.Status)
				}
				names = names[1:]
			}
			return nil
		}
	}
}

// killedSenders are all senders, by the table of their records.
func killedSenders(t *testing.T, web, rpc string) map[string][]sending {
	t.Helper()
	ctx := context.Background()
	path := func(signal string) string {
		return "http://" + web + "/otlp/1/" + killedSource + "/" + secret + "/v1/" + signal
	}
	all := map[string][]sending{
		"traces": {
			must(sendSpans(otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(path("traces")))))(t),
			must(sendSpans(otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(rpc), otlptracegrpc.WithInsecure(), otlptracegrpc.WithHeaders(bearer))))(t),
		},
		"logs": {
			must(sendLogs(otlploghttp.New(ctx, otlploghttp.WithEndpointURL(path("logs")), otlploghttp.WithCompression(otlploghttp.GzipCompression))))(t),
			must(sendLogs(otlploggrpc.New(ctx, otlploggrpc.WithEndpoint(rpc), otlploggrpc.WithInsecure(), otlploggrpc.WithHeaders(bearer))))(t),
		},
		"metrics": {
			must(sendMetrics(otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(path("metrics")))))(t),
			must(sendMetrics(otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(rpc), otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithHeaders(bearer))))(t),
		},
	}
	for range 4 {
		all["events"] = append(all["events"], sendEvents("http://"+web+"/stream/1/web/"+secret))
	}
	return all
}

// killedRow is a row of a table of the engine that is killed.
type killedRow struct{ table, name string }

// Senders over HTTP with keys, and the exporters of the SDK over HTTP and gRPC, send everything again until it is
// acknowledged, while the engine is killed with SIGKILL again and again. Nothing is lost, and nothing is doubled.
func TestKilledProcess(t *testing.T) {
	if dir, ok := proctest.Child(); ok {
		if err := serveEngine(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Logf("%d cycles; more with: go test . -run TestKilledProcess -cycles 1000 -timeout 2h", *cycles)
	rng := seedtest.Rand(t)
	data := t.TempDir()
	webFile, web := listen(t)
	rpcFile, rpc := listen(t)
	p := startEngine(t, data, webFile, rpcFile)

	var to []string // the table of each sender
	var senders []sending
	for table, list := range killedSenders(t, web, rpc) {
		for _, send := range list {
			to, senders = append(to, table), append(senders, send)
		}
	}
	var attempts atomic.Int64
	clients := proctest.Load(len(senders), func(i, batch int) (rows []killedRow, err error) {
		names := killedNames(fmt.Sprint(to[i], i), batch)
		attempt := senders[i](names)
		for err = io.EOF; err != nil; {
			attempts.Add(1)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err = attempt(ctx)
			cancel()
		}
		for _, name := range names {
			rows = append(rows, killedRow{to[i], name})
			if to[i] == "events" {
				rows = append(rows, killedRow{"copies", name})
			}
		}
		return rows, nil
	})
	for range *cycles {
		clients.Wait(1 + rng.Int64N(60))
		p.Kill()
		p = startEngine(t, data, webFile, rpcFile)
	}
	sent := clients.Stop()
	if out, err := p.Wait(); err != nil {
		t.Fatalf("engine process: %v: %s", err, out)
	}

	tables, stored := dir.Tables(filepath.Join(data, "tables")), map[killedRow]int{}
	for _, table := range []string{"traces", "logs", "metrics", "events", "copies"} {
		for row, err := range tables.Rows("in.c-killed." + table) {
			if err != nil {
				t.Fatal(err)
			}
			stored[killedRow{table, row[0]}]++
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(sent)), func(r killedRow) bool { return r.table == table }) {
			t.Errorf("nothing was sent to %s", table)
		}
	}
	t.Logf("%d batches were acknowledged after %d attempts", clients.Acknowledged(), attempts.Load())
	if a := proctest.Check(t, maps.Keys(sent), stored); a.Unknown > 0 {
		t.Errorf("%d rows were not acknowledged", a.Unknown)
	}
}
