package otlptest

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
	"github.com/forebay/forebay/trigger"
)

var cycles = flag.Int("cycles", 6, "how often TestKilledProcess kills the engine")

// engineVariable makes the test program an engine process on the directory that it names. Its listeners are inherited, so
// that the address outlives the process and senders can come back to it.
const engineVariable = "OTLPTEST_ENGINE"

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

// serveEngine is the engine process. It drains and ends when its standard input is closed.
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

// engineProcess is a running engine process.
type engineProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startEngine(t *testing.T, dir string, listeners ...*os.File) *engineProcess {
	t.Helper()
	p := &engineProcess{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), engineVariable+"="+dir)
	p.cmd.ExtraFiles, p.cmd.Stderr = listeners, os.Stderr
	p.stdin = must(p.cmd.StdinPipe())(t)
	out := must(p.cmd.StdoutPipe())(t)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the engine process did not start: %v %q; %v", err, line, p.cmd.Wait())
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

// Senders over HTTP with keys, and the exporters of the SDK over HTTP and gRPC, send everything again until it is
// acknowledged, while the engine is killed with SIGKILL again and again. Nothing is lost, and nothing is doubled.
func TestKilledProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Logf("%d cycles; more with: go test . -run TestKilledProcess -cycles 1000 -timeout 2h", *cycles)
	rng := seedtest.Rand(t)
	data := t.TempDir()
	webFile, web := listen(t)
	rpcFile, rpc := listen(t)
	p := startEngine(t, data, webFile, rpcFile)

	var answered, attempts atomic.Int64
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	sent := map[string][]string{} // names by table
	for table, senders := range killedSenders(t, web, rpc) {
		for i, send := range senders {
			wg.Go(func() {
				for batch := 0; ; batch++ {
					select {
					case <-stop:
						return
					default:
					}
					names := killedNames(fmt.Sprint(table, i), batch)
					attempt := send(names)
					for {
						attempts.Add(1)
						ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
						err := attempt(ctx)
						cancel()
						if err == nil {
							break
						}
					}
					mu.Lock()
					sent[table] = append(sent[table], names...)
					mu.Unlock()
					answered.Add(1)
					select {
					case progress <- struct{}{}:
					default:
					}
				}
			})
		}
	}
	for range *cycles {
		for want := answered.Load() + 1 + rng.Int64N(60); answered.Load() < want; {
			<-progress
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait()
		p = startEngine(t, data, webFile, rpcFile)
	}
	close(stop)
	wg.Wait()
	p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("engine process: %v", err)
	}

	tables := dir.Tables(filepath.Join(data, "tables"))
	rows, lost, doubled, unconfirmed := 0, 0, 0, 0
	for _, table := range []string{"traces", "logs", "metrics", "events", "copies"} {
		stored := map[string]int{}
		for row, err := range tables.Rows("in.c-killed." + table) {
			if err != nil {
				t.Fatal(err)
			}
			stored[row[0]]++
			rows++
		}
		names := sent[table]
		if table == "copies" {
			names = sent["events"]
		}
		if len(names) == 0 {
			t.Errorf("nothing was sent to %s", table)
		}
		for _, name := range names {
			switch n := stored[name]; {
			case n == 0:
				lost++
			case n > 1:
				doubled++
			}
			delete(stored, name)
		}
		unconfirmed += len(stored)
	}
	t.Logf("%d batches were acknowledged after %d attempts, %d rows in the tables; %d lost, %d doubled, %d unconfirmed",
		answered.Load(), attempts.Load(), rows, lost, doubled, unconfirmed)
	if lost+doubled+unconfirmed > 0 {
		t.Error("not every row is there once")
	}
}
