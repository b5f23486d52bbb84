package otlpgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

const secret = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"

func sink(id string, columns ...mapping.Column) forebay.Sink {
	return forebay.Sink{ID: id, Table: forebay.Table{ID: "in.c-app." + id, Columns: columns}}
}

// start serves an engine in memory and returns a connection to it.
func start(t *testing.T, opts otlpgrpc.Options, more []grpc.ServerOption, sources ...forebay.Source) (*forebay.Engine, *buffertest.Memory, *grpc.ClientConn) {
	t.Helper()
	return startWith(t, nil, opts, more, sources...)
}

// startWith is start with a changelog.
func startWith(t *testing.T, log buffer.Changelog, opts otlpgrpc.Options, more []grpc.ServerOption, sources ...forebay.Source) (*forebay.Engine, *buffertest.Memory, *grpc.ClientConn) {
	t.Helper()
	return startEngine(t, forebay.Options{Changelog: log}, opts, more, sources...)
}

// startEngine is start with options of the engine.
func startEngine(t *testing.T, engine forebay.Options, opts otlpgrpc.Options, more []grpc.ServerOption, sources ...forebay.Source) (*forebay.Engine, *buffertest.Memory, *grpc.ClientConn) {
	t.Helper()
	mem := buffertest.NewMemory()
	engine.Staging, engine.Target, engine.Buffer = mem, mem, localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem())
	eng, err := forebay.Open("data", engine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() }) // some tests have closed it
	for _, src := range sources {
		if err := eng.Define(t.Context(), src); err != nil {
			t.Fatal(err)
		}
	}
	srv := otlpgrpc.Server(eng, opts, more...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return eng, mem, conn
}

func with(ctx context.Context, authorization string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", authorization, "x-kind", "test")
}

func app(sinks ...forebay.Sink) forebay.Source {
	return forebay.Source{ID: "app", Type: forebay.OTLP, Secret: secret, Sinks: sinks}
}

func logs(bodies ...string) plogotlp.ExportRequest {
	batch := plog.NewLogs()
	records := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, b := range bodies {
		records.AppendEmpty().Body().SetStr(b)
	}
	return plogotlp.NewExportRequestFromLogs(batch)
}

// Columns see the metadata of the call as headers, without the secret, and the address of the client.
func TestExport(t *testing.T) {
	eng, mem, conn := start(t, otlpgrpc.Options{HiddenHeaders: []string{"user-agent"}}, nil, app(sink("rows",
		mapping.Path("body", "body", mapping.RawString()), mapping.IP("ip"), mapping.Template("kind", `Header("X-Kind")`), mapping.Headers("headers"))))
	res, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "bearer "+secret), logs("a", "b"))
	if err != nil || res.PartialSuccess().RejectedLogRecords() != 0 || res.PartialSuccess().ErrorMessage() != "" {
		t.Fatalf("got %v, %v, want no error and res.PartialSuccess().RejectedLogRecords() == 0 and res.PartialSuccess().ErrorMessage() == \"\"", err, res.PartialSuccess())
	}
	if err := eng.Flush(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	rows := mem.Rows("in.c-app.rows")
	if len(rows) != 2 || rows[1][0] != "b" || rows[1][1] != "127.0.0.1" || rows[1][2] != `"test"` || strings.Contains(rows[1][3], secret) || strings.Contains(rows[1][3], "User-Agent") {
		t.Errorf("rows %q", rows)
	}
}

// An old secret finds its source until its end, whichever of several sources it is of.
func TestOldSecret(t *testing.T) {
	define := func(until time.Time) forebay.Source {
		src := app(sink("rows", mapping.Body("b")))
		src.OldSecret, src.OldSecretUntil = "old", until
		return src
	}
	eng, _, conn := start(t, otlpgrpc.Options{}, nil, define(time.Now().Add(time.Hour)), forebay.Source{ID: "other", Type: forebay.OTLP, Secret: "other"})
	want := func(token string, code codes.Code) {
		t.Helper()
		if _, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+token), logs("a")); status.Code(err) != code {
			t.Errorf("%s: got %v, want %s", token, err, code)
		}
	}
	want("old", codes.OK)
	want(secret, codes.OK)
	if err := eng.Define(t.Context(), define(time.Now())); err != nil {
		t.Fatal(err)
	}
	want("old", codes.Unauthenticated)
	want(secret, codes.OK)
}

// A partial success has the count and the first reason, even for a batch that no sink takes.
func TestPartialSuccess(t *testing.T) {
	onlyLogs := sink("logs", mapping.Path("n", "body.n"))
	onlyLogs.AllowedSignals = []forebay.Signal{forebay.SignalLogs}
	_, _, conn := start(t, otlpgrpc.Options{}, nil, app(onlyLogs))
	req := logs("a", "b", "c")
	req.Logs().ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(1).Body().SetEmptyMap().PutInt("n", 1)
	ctx := with(t.Context(), "Bearer "+secret)
	res, err := plogotlp.NewGRPCClient(conn).Export(ctx, req)
	if err != nil || res.PartialSuccess().RejectedLogRecords() != 2 || !strings.Contains(res.PartialSuccess().ErrorMessage(), `column "n"`) {
		t.Errorf("got %v, %d %q, want no error and res.PartialSuccess().RejectedLogRecords() == 2 and strings.Contains(res.PartialSuccess().ErrorMessage(), `column \"n\"`)", err, res.PartialSuccess().RejectedLogRecords(), res.PartialSuccess().ErrorMessage())
	}
	if _, err = plogotlp.NewGRPCClient(conn).Export(ctx, logs("a")); status.Code(err) != codes.InvalidArgument {
		t.Errorf("all rejected: %v", err)
	}
	traces := ptraceotlp.NewExportRequest()
	traces.Traces().ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	warned, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, traces)
	if err != nil || warned.PartialSuccess().RejectedSpans() != 1 || !strings.Contains(warned.PartialSuccess().ErrorMessage(), "takes traces") {
		t.Errorf("got %v, %d %q, want no error and one rejected span, because nothing takes traces", err, warned.PartialSuccess().RejectedSpans(), warned.PartialSuccess().ErrorMessage())
	}
	metrics := pmetricotlp.NewExportRequest()
	if empty, err := pmetricotlp.NewGRPCClient(conn).Export(ctx, metrics); err != nil || empty.PartialSuccess().ErrorMessage() != "" {
		t.Errorf("empty batch: %v, %q", err, empty.PartialSuccess().ErrorMessage())
	}
}

func TestRefusals(t *testing.T) {
	off := forebay.Source{ID: "off", Type: forebay.OTLP, Secret: "off", Disabled: true}
	twin := func(id string) forebay.Source { return forebay.Source{ID: id, Type: forebay.OTLP, Secret: "twins"} }
	web := forebay.Source{ID: "web", Secret: "web"}
	open := forebay.Source{ID: "open", Type: forebay.OTLP}
	eng, _, conn := start(t, otlpgrpc.Options{MaxMessageBytes: 64 << 10, MaxBufferedBytes: 1 << 20}, nil, app(sink("rows", mapping.Body("b"))), off, twin("one"), twin("two"), web, open)
	deep := logs("x")
	v := deep.Logs().ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body()
	for range 100 {
		v = v.SetEmptySlice().AppendEmpty()
	}
	many := make([]string, 6_000)
	for name, c := range map[string]struct {
		authorization string
		req           plogotlp.ExportRequest
		code          codes.Code
	}{
		"no secret":          {"", logs("x"), codes.Unauthenticated},
		"wrong secret":       {"Bearer " + secret + "x", logs("x"), codes.Unauthenticated},
		"other scheme":       {"Basic " + secret, logs("x"), codes.Unauthenticated},
		"HTTP source":        {"Bearer web", logs("x"), codes.Unauthenticated},
		"empty secret":       {"Bearer ", logs("x"), codes.Unauthenticated},
		"disabled":           {"Bearer off", logs("x"), codes.Unavailable},
		"secret of two":      {"Bearer twins", logs("x"), codes.FailedPrecondition},
		"nested":             {"Bearer " + secret, deep, codes.InvalidArgument},
		"many records":       {"Bearer " + secret, logs(many...), codes.InvalidArgument},
		"message too large":  {"Bearer " + secret, logs(strings.Repeat("x", 70_000)), codes.ResourceExhausted},
		"compressed, a bomb": {"Bearer " + secret, logs(strings.Repeat("x", 30<<20)), codes.ResourceExhausted},
	} {
		var opts []grpc.CallOption
		if strings.HasPrefix(name, "compressed") {
			opts = append(opts, grpc.UseCompressor("gzip"))
		}
		_, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), c.authorization), c.req, opts...)
		if status.Code(err) != c.code || strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("%s: got %v, want %v", name, err, c.code)
		}
	}

	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), logs("x"))
	if retryDelay(t, err) <= 0 {
		t.Errorf("a closed engine: %v", err)
	}
}

// retryDelay returns the delay after which an exporter must send a batch again, zero if it must not.
func retryDelay(t *testing.T, err error) time.Duration {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.Unavailable || len(st.Details()) != 1 {
		return 0
	}
	info, ok := st.Details()[0].(*errdetails.RetryInfo)
	if !ok {
		return 0
	}
	return info.RetryDelay.AsDuration()
}

// A source that is disabled for a while loses nothing of an exporter that waits.
func TestPausedSource(t *testing.T) {
	src := app(sink("rows", mapping.Body("b")))
	src.Disabled = true
	eng, _, conn := start(t, otlpgrpc.Options{}, nil, src)
	export := func() error {
		_, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), logs("x"))
		return err
	}
	if err := export(); retryDelay(t, err) <= 0 {
		t.Errorf("got %v, want retryDelay(t, err) > 0", err)
	}
	src.Disabled = false
	if err := eng.Define(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if err := export(); err != nil {
		t.Error(err)
	}
}

// ownedLog is a changelog that keeps nothing, until it has another owner.
type ownedLog struct{ fenced atomic.Bool }

func (*ownedLog) Begin(context.Context, buffer.LogPosition) iter.Seq2[buffer.LogBatch, error] {
	return func(func(buffer.LogBatch, error) bool) {}
}

func (*ownedLog) Mark() []byte { return nil }

func (l *ownedLog) Append(uint64, []byte) func(context.Context) error {
	return func(context.Context) error {
		if l.fenced.Load() {
			return buffer.ErrFenced
		}
		return nil
	}
}

// When another node has taken over, an exporter sends its batches again, and a balancer finds that node.
func TestFencedNode(t *testing.T) {
	log := &ownedLog{}
	_, _, conn := startWith(t, log, otlpgrpc.Options{}, nil, app(sink("rows", mapping.Body("b"))))
	log.fenced.Store(true)
	for range 2 {
		_, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), logs("x"))
		if retryDelay(t, err) <= 0 || !strings.Contains(err.Error(), "Another node") {
			t.Errorf("got %v, want retryDelay(t, err) > 0 and strings.Contains(err.Error(), \"Another node\")", err)
		}
	}
}

// The unsupported signal is refused permanently, and by its name.
func TestProfiles(t *testing.T) {
	_, _, conn := start(t, otlpgrpc.Options{}, nil, app())
	const method = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
	err := conn.Invoke(with(t.Context(), "Bearer "+secret), method, raw("x"), raw(nil))
	if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "Profiles are not taken") {
		t.Error(err)
	}
}

// What a Collector sends by default comes through by default: 8,192 records of 1.2 KB in one batch, compressed and not.
func TestDefaultBatchOfCollector(t *testing.T) {
	eng, _, conn := start(t, otlpgrpc.Options{}, nil, app(sink("rows", mapping.Path("b", "body"))))
	bodies := make([]string, 8192)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("%d %s", i, strings.Repeat("gate ", 240))
	}
	for i, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
		if _, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), logs(bodies...), opts...); err != nil {
			t.Fatal(err)
		}
		if got := eng.Stats().Sinks[0].Accepted; got != int64((i+1)*len(bodies)) {
			t.Errorf("got %d rows after %d batches, want %d", got, i+1, (i+1)*len(bodies))
		}
	}
}

// raw is a message that is sent as it is.
type raw []byte

func (r raw) SizeProto() int              { return len(r) }
func (r raw) MarshalProto(dst []byte) int { return copy(dst, r) }
func (raw) UnmarshalProto([]byte) error   { return nil }

func TestMalformedMessage(t *testing.T) {
	_, _, conn := start(t, otlpgrpc.Options{}, nil, app())
	const method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	if err := conn.Invoke(with(t.Context(), "Bearer "+secret), method, raw("hello"), raw(nil)); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

// Interceptors of a user's server see the calls.
func TestInterceptor(t *testing.T) {
	refused := errors.New("refused by the interceptor")
	var method string
	_, _, conn := start(t, otlpgrpc.Options{}, []grpc.ServerOption{grpc.UnaryInterceptor(
		func(_ context.Context, _ any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			method = info.FullMethod
			return nil, refused
		})}, app())
	_, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), logs("x"))
	if err == nil || !strings.Contains(err.Error(), refused.Error()) || method != "/opentelemetry.proto.collector.logs.v1.LogsService/Export" {
		t.Errorf("got %v, method %q, want %v and the method of the export", err, method, refused)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []otlpgrpc.Options{
		{MaxMessageBytes: 1},
		{MaxMessageBytes: 1<<30 + 1},
		{MaxMessageBytes: 1 << 30},
		{MaxWireBytes: 1},
		{MaxWireBytes: 1<<30 + 1},
		{MaxBufferedBytes: 1},
		{MaxWireBytes: 1 << 20, MaxMessageBytes: 1 << 20, MaxBufferedBytes: 2 << 20},
		{ReadTimeout: -1},
		{ReadTimeout: 2 * time.Hour},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is valid", o)
		}
	}
	for _, o := range []otlpgrpc.Options{{}, {MaxBufferedBytes: 1 << 20}} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}
