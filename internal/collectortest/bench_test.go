package collectortest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/stream/otlpgrpc"
	"github.com/forebay/forebay/trigger"
)

const (
	perRequest = 100
	bodyBytes  = 150
	inFlight   = 64
	exportLogs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	// marker is in each body, and nowhere else.
	marker = " finished with status 200"
)

// BenchmarkBesideCollector sends the same log records, in turns, to Forebay and to a Collector, each in a process of its own. An answer of
// either means that the records are on disk: in the engine, or in the queue of the Collector with file_storage and fsync. Then the records go
// on: into Parquet files with the columns of LogsTable, or to a server that throws them away, because the Collector has no exporter for
// PostgreSQL or Parquet. So its figures are what an exporter for a table could reach if it cost nothing.
//
//	go test -run '^$' -bench BesideCollector -benchtime 5x
//
// rows/s count until the last answer, stored_rows/s until the last row is in its table or thrown away. cpu_ns/row is the CPU of the process.
func BenchmarkBesideCollector(b *testing.B) {
	const requests = 1000
	var ratios, cpuRatios []float64
	total := map[string]figures{}
	for b.Loop() {
		ours, theirs := benchForebay(b, requests), benchCollector(b, requests)
		total["forebay"], total["collector"] = total["forebay"].add(ours), total["collector"].add(theirs)
		ratios = append(ratios, theirs.stored.Seconds()/ours.stored.Seconds())
		cpuRatios = append(cpuRatios, theirs.cpu.Seconds()/ours.cpu.Seconds())
	}
	rows := float64(requests * perRequest * b.N)
	for name, f := range total {
		b.ReportMetric(rows/f.answered.Seconds(), name+"_rows/s")
		b.ReportMetric(rows/f.stored.Seconds(), name+"_stored_rows/s")
		b.ReportMetric(float64(f.cpu.Nanoseconds())/rows, name+"_cpu_ns/row")
	}
	slices.Sort(ratios)
	slices.Sort(cpuRatios)
	b.ReportMetric(ratios[len(ratios)/2], "stored_ratio")
	b.ReportMetric(cpuRatios[len(cpuRatios)/2], "cpu_ratio")
}

// figures are what a round took.
type figures struct{ answered, stored, cpu time.Duration }

func (f figures) add(o figures) figures {
	return figures{f.answered + o.answered, f.stored + o.stored, f.cpu + o.cpu}
}

// asForebay makes the test binary a server of Forebay whose data is in the folder that it names.
const asForebay = "FOREBAY_TEST_SERVER"

// serveForebay runs until a signal. Its first line is its address, the last one the number of rows in the table.
func serveForebay(folder string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	tables, err := parquet.Tables(filepath.Join(folder, "tables"), parquet.Options{MergeTo: -1})
	if err != nil {
		return err
	}
	opts := forebay.Options{Target: tables}
	opts.Buffer.MinImportInterval = time.Second
	engine, err := forebay.Open(filepath.Join(folder, "data"), opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	often := trigger.Conditions{Interval: time.Second}
	err = engine.Define(ctx, forebay.Source{
		ID: source, Type: forebay.OTLP, Secret: secret, Settings: forebay.Settings{Upload: often, Import: often},
		Sinks: []forebay.Sink{{ID: "logs", Table: forebay.Table{ID: "logs", Columns: presets[forebay.SignalLogs]}}},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	rpc := otlpgrpc.Server(engine, otlpgrpc.Options{})
	go func() { _ = rpc.Serve(l) }()
	fmt.Println(l.Addr())
	<-ctx.Done()
	rpc.GracefulStop()
	if err := engine.FlushAll(context.Background()); err != nil {
		return err
	}
	fmt.Println(engine.Stats().Sinks[0].Target.Rows)
	return nil
}

func benchForebay(b *testing.B, requests int) (f figures) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asForebay+"="+b.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		b.Fatal("no server")
	}
	before, began := cpuOf(b, cmd), time.Now()
	sendAll(b, lines.Text(), requests)
	f.answered = time.Since(began)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != strconv.Itoa(requests*perRequest) {
		b.Fatalf("the table has %q rows", lines.Text())
	}
	f.stored = time.Since(began)
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	f.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() - before
	return f
}

func benchCollector(b *testing.B, requests int) (f figures) {
	b.Helper()
	var arrived atomic.Int64
	all := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	null := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var request []byte
		if err := s.RecvMsg(&request); err != nil {
			return err
		}
		n := int64(bytes.Count(request, []byte(marker)))
		want, sum := int64(requests*perRequest), arrived.Add(n)
		if sum >= want && sum-n < want {
			close(all)
		}
		return s.SendMsg([]byte(nil))
	}))
	go func() { _ = null.Serve(l) }()
	defer null.Stop()
	c := startCollector(b, "otlp_grpc", b.TempDir(), l.Addr().String(), "    compression: gzip\n", "    compression: none\n", "      queue_size: 1000000\n", "      queue_size: 1000000\n      block_on_overflow: true\n")
	before, began := cpuOf(b, c.cmd), time.Now()
	sendAll(b, c.addr, requests)
	f.answered = time.Since(began)
	select {
	case <-all:
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d records arrived\n%s", arrived.Load(), &c.logs)
	}
	f.stored = time.Since(began)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if <-c.ended; c.err != nil {
		b.Fatalf("%v\n%s", c.err, &c.logs)
	}
	f.cpu = c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime() - before
	return f
}

// cpuOf is the CPU that a process has used: its start is not a part of the figures.
func cpuOf(b *testing.B, cmd *exec.Cmd) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		b.Skip("the figures need /proc: ", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	text, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not bytes", v)
	}
	return text, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	if to, ok := v.(*[]byte); ok {
		*to = bytes.Clone(data)
		return nil
	}
	return fmt.Errorf("%T is not a pointer to bytes", v)
}

// runs makes each request of the process another one: a repeated request would be stored once.
var runs atomic.Int64

// sendAll sends requests and returns when all are answered.
func sendAll(b *testing.B, addr string, requests int) {
	b.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	template := encoded(b)
	place := bytes.Index(template, []byte("request-0000000000")) + len("request-")
	ctx := metadata.AppendToOutgoingContext(b.Context(), "authorization", "Bearer "+secret)
	var next atomic.Int64
	var all sync.WaitGroup
	for range inFlight {
		all.Go(func() {
			request := bytes.Clone(template)
			for next.Add(1) <= int64(requests) && !b.Failed() {
				copy(request[place:], fmt.Sprintf("%010d", runs.Add(1)))
				var answer []byte
				if err := conn.Invoke(ctx, exportLogs, request, &answer); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// encoded is a request as a service sends it.
func encoded(b *testing.B) []byte {
	b.Helper()
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	for k, v := range map[string]string{"service.name": "checkout", "service.version": "2.14.3", "host.name": "ip-10-3-7-21", "deployment.environment.name": "production"} {
		rl.Resource().Attributes().PutStr(k, v)
	}
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("checkout/http")
	for i := range perRequest {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(pcommon.Timestamp(began))
		r.SetObservedTimestamp(pcommon.Timestamp(began))
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		text := fmt.Sprintf("GET /api/v1/orders/%d%s: ", 100_000+i, marker)
		r.Body().SetStr((text + strings.Repeat("the gate opens when the basin is full ", 4))[:bodyBytes])
		r.SetTraceID(pcommon.TraceID{1, 15: byte(i)})
		r.SetSpanID(pcommon.SpanID{1, 7: byte(i)})
		r.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
		r.Attributes().PutInt("http.response.status_code", 200)
		if i == 0 {
			r.Attributes().PutStr("request", "request-0000000000")
		}
	}
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
	if err != nil {
		b.Fatal(err)
	}
	return data
}
