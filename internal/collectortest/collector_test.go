package collectortest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/porttest"
)

// asCollector makes the test binary a Collector with the configuration file that it names.
const asCollector = "FOREBAY_TEST_COLLECTOR"

func TestMain(m *testing.M) {
	clickhousetest.Main()
	if file := os.Getenv(asCollector); file != "" {
		if err := collect(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if folder := os.Getenv(asForebay); folder != "" {
		if err := serveForebay(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	status := database.Run(m)
	clickhouseServer.Close()
	os.Exit(status)
}

// collect runs a Collector until a signal.
func collect(file string) error {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Version: "test"},
		Factories: func() (f otelcol.Factories, err error) {
			if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
				return f, err
			}
			if f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlpexporter.NewFactory(), otlphttpexporter.NewFactory(),
				clickhouseexporter.NewFactory(), newTableFactory(toParquet, openParquetTable), newTableFactory(toPostgres, openPostgresTable)); err != nil {
				return f, err
			}
			f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](filestorage.NewFactory())
			f.Telemetry = otelconftelemetry.NewFactory()
			return f, err
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{file}, ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory()},
		}},
	}
	c, err := otelcol.NewCollector(settings)
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}

// collector is a Collector in a separate process.
type collector struct {
	t    testing.TB
	cmd  *exec.Cmd
	addr string // of its gRPC receiver
	file string // its configuration
	logs lockedBuffer
	// ended is closed when the process has ended, as err says.
	ended chan struct{}
	err   error
}

// configuration is the example of docs/telemetry.md for an exporter, with the addresses of the test. The exporter of a table has the queue of that
// page, and gets logs alone. changes are pairs of old and new text.
func configuration(t testing.TB, exporter, storage, to, receiver string, changes ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(receivers:.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/telemetry.md has no configuration of a Collector")
	}
	text := string(m[1])
	replace := func(old, new string) {
		if !strings.Contains(text, old) {
			t.Fatalf("the configuration of docs/telemetry.md lacks %q", old)
		}
		text = strings.ReplaceAll(text, old, new)
	}
	replace("/var/lib/otelcol", storage)
	replace("grpc: {endpoint: 0.0.0.0:14317}", "grpc: {endpoint: "+receiver+"}")
	replace("      http: {endpoint: 0.0.0.0:14318}\n", "")
	const endpoint = "otlp_grpc:\n    endpoint: forebay:4317\n    tls: {insecure: true}"
	switch exporter {
	case "otlp_grpc":
		replace("forebay:4317", to)
	case "otlp_http":
		replace(endpoint, "otlp_http:\n    endpoint: http://"+to)
		replace("[otlp_grpc]", "[otlp_http]")
	default:
		where := "where: " + strconv.Quote(to)
		if exporter == toClickHouse {
			// clickhousetest has the HTTP interface, without the compression of blocks. A batch that is ended by the default of 5 s begins again.
			where = "endpoint: " + strconv.Quote(strings.Replace(to, "clickhouse:", "http:", 1)) + "\n    compress: none\n    timeout: 1m"
		}
		replace(endpoint+"\n    compression: gzip\n    headers: {authorization: \"Bearer ${env:OTLP_SECRET}\"}", exporter+":\n    "+where)
		for _, signal := range []string{"metrics", "traces"} {
			replace("    "+signal+": {receivers: [otlp], exporters: [otlp_grpc]}\n", "")
		}
		replace("[otlp_grpc]", "["+exporter+"]")
	}
	for i := 0; i < len(changes); i += 2 {
		replace(changes[i], changes[i+1])
	}
	return text + "\n  telemetry: {metrics: {level: none}}\n"
}

// startCollector starts a Collector with a [configuration]. What its exporter prints goes to out.
func startCollector(t testing.TB, out io.Writer, exporter, storage, to string, changes ...string) *collector {
	t.Helper()
	address, err := porttest.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{t: t, addr: address[0], file: filepath.Join(t.TempDir(), "otelcol.yaml")}
	if err := os.WriteFile(c.file, []byte(configuration(t, exporter, storage, to, c.addr, changes...)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(out)
	t.Cleanup(c.kill)
	return c
}

// start starts it, the first time or after a kill.
func (c *collector) start(out io.Writer) {
	c.t.Helper()
	c.ended = make(chan struct{})
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), asCollector+"="+c.file, "OTLP_SECRET="+secret)
	c.cmd.Stdout, c.cmd.Stderr = out, &c.logs
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if conn, err := net.Dial("tcp", c.addr); err == nil {
			conn.Close()
			return
		}
		select {
		case <-c.ended:
			c.t.Fatalf("the Collector has ended: %v\n%s", c.err, &c.logs)
		case <-tick.C:
		}
	}
	c.t.Fatalf("the Collector does not listen\n%s", &c.logs)
}

// kill ends it as a power cut does.
func (c *collector) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// send gives the Collector a part of each signal.
func (c *collector) send(from, to int) {
	c.t.Helper()
	conn, err := grpc.NewClient(c.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	wait := grpc.WaitForReady(true)
	if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(logs(from, to)), wait); err != nil {
		c.t.Fatalf("logs: got %v, want no error\n%s", err, &c.logs)
	}
	if _, err := pmetricotlp.NewGRPCClient(conn).Export(ctx, pmetricotlp.NewExportRequestFromMetrics(metrics(from, to)), wait); err != nil {
		c.t.Fatalf("metrics: got %v, want no error\n%s", err, &c.logs)
	}
	if _, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequestFromTraces(traces(from, to)), wait); err != nil {
		c.t.Fatalf("traces: got %v, want no error\n%s", err, &c.logs)
	}
}

// Every record that a Collector accepted is in the tables once, with its values, including records accepted while Forebay was down and
// records queued when the Collector was killed.
func TestCollector(t *testing.T) {
	for _, exporter := range []string{"otlp_grpc", "otlp_http"} {
		t.Run(exporter, func(t *testing.T) {
			s := newServer(t)
			addr := s.grpcAddr
			if exporter == "otlp_http" {
				addr = s.httpAddr
			}
			storage := t.TempDir()
			c := startCollector(t, io.Discard, exporter, storage, addr)
			const part = 700
			c.send(0, part) // into its queue because no server responds yet
			c.kill()
			c = startCollector(t, io.Discard, exporter, storage, addr)
			c.send(part, 2*part)
			s.serve()
			c.send(2*part, 3*part)
			s.wait(3*part, &c.logs)
			s.check(3 * part)
		})
	}
}

// lockedBuffer is a buffer that a process writes while a test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
