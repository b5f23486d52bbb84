package otlpgrpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

const exportLogs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

// zstdCompressor is the compressor of a client. A broken one sends data that is not zstd.
type zstdCompressor struct{ broken bool }

func (c zstdCompressor) Do(w io.Writer, p []byte) error {
	if c.broken {
		_, err := w.Write(p)
		return err
	}
	z, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	if _, err := z.Write(p); err != nil {
		return err
	}
	return z.Close()
}

func (zstdCompressor) Type() string { return "zstd" }

// dial returns a client of another connection's server, which compresses with zstd.
func dial(t *testing.T, conn *grpc.ClientConn, c zstdCompressor) plogotlp.GRPCClient {
	t.Helper()
	//lint:ignore SA1019 what replaces it is global: the server of this process would have zstd from there
	other, err := grpc.NewClient(conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithCompressor(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return plogotlp.NewGRPCClient(other)
}

func TestZstd(t *testing.T) {
	if encoding.GetCompressor("zstd") != nil {
		t.Fatal("zstd is registered for the whole program")
	}
	eng, mem, conn := start(t, otlpgrpc.Options{MaxMessageBytes: 64 << 10}, nil, app(sink("rows", mapping.Path("b", "body", mapping.RawString()))))
	ctx := with(t.Context(), "Bearer "+secret)
	client := dial(t, conn, zstdCompressor{})
	text := strings.Repeat("gate ", 10_000)
	for range 3 { // decoders are used again
		if _, err := client.Export(ctx, logs(text, "b")); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		client plogotlp.GRPCClient
		req    plogotlp.ExportRequest
		code   codes.Code
	}{
		"one byte too large": {client, logs(strings.Repeat("x", 64<<10)), codes.ResourceExhausted},
		"a bomb":             {client, logs(strings.Repeat("x", 30<<20)), codes.ResourceExhausted},
		"no zstd":            {dial(t, conn, zstdCompressor{broken: true}), logs("x"), codes.Internal},
	} {
		if _, err := c.client.Export(ctx, c.req); status.Code(err) != c.code {
			t.Errorf("%s: got %v, want %v", name, err, c.code)
		}
	}
	if err := eng.Flush(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	if rows := mem.Rows("in.c-app.rows"); len(rows) != 6 || rows[0][0] != text || rows[5][0] != "b" {
		t.Errorf("got %d rows, want 6 from the text to b", len(rows))
	}
}

// The server reads and bounds a message in snappy or deflate like one in gzip.
func TestRegisteredCodings(t *testing.T) {
	for _, coding := range []string{"gzip", "snappy", "deflate"} {
		t.Run(coding, func(t *testing.T) { testCoding(t, coding) })
	}
}

func testCoding(t *testing.T, coding string) {
	eng, mem, conn := start(t, otlpgrpc.Options{MaxMessageBytes: 64 << 10}, nil, app(sink("rows", mapping.Path("b", "body", mapping.RawString()))))
	ctx := with(t.Context(), "Bearer "+secret)
	text := strings.Repeat("gate ", 10_000)
	for range 3 {
		if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, logs(text), grpc.UseCompressor(coding)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, logs(strings.Repeat("x", 4<<20)), grpc.UseCompressor(coding)); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	onlyLogs, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequest(), grpc.UseCompressor(coding))
	if err != nil || onlyLogs.PartialSuccess().ErrorMessage() != "" {
		t.Error(err)
	}
	if err := eng.Flush(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	if rows := mem.Rows("in.c-app.rows"); len(rows) != 3 || rows[2][0] != text {
		t.Errorf("got %d rows, want 3, the last with the text", len(rows))
	}
}

// A call is one whole message. A call that ends early, or continues, stores nothing.
func TestMalformedCalls(t *testing.T) {
	eng, _, conn := start(t, otlpgrpc.Options{MaxWireBytes: 64 << 10}, nil, app(sink("rows", mapping.Body("b"))))
	good, err := logs("x").MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	message := func(flag byte, announced int, data []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(announced)), data...)
	}
	for name, c := range map[string]struct {
		data []byte
		code codes.Code
	}{
		"nothing":         {nil, codes.Internal},
		"cut prefix":      {[]byte{0, 0}, codes.Internal},
		"no message":      {message(0, len(good), nil), codes.Internal},
		"cut":             {message(0, len(good), good[:len(good)-1]), codes.Internal},
		"two messages":    {append(message(0, len(good), good), message(0, len(good), good)...), codes.Internal},
		"more":            {append(message(0, len(good), good), 0), codes.Internal},
		"compressed, how": {message(1, len(good), good), codes.Internal},
		"unknown flag":    {message(2, len(good), good), codes.Internal},
		"announced":       {message(0, 1<<32-1, good), codes.ResourceExhausted},
		"above the wire":  {message(0, 64<<10+1, nil), codes.ResourceExhausted},
		"whole":           {message(0, len(good), good), codes.OK},
		"empty":           {message(0, 0, nil), codes.OK},
	} {
		if code := call(t, conn.Target(), c.data); code != c.code {
			t.Errorf("%s: got %v, want %v", name, code, c.code)
		}
	}
	if got := eng.Stats().Sinks[0].Accepted; got != 1 {
		t.Errorf("got %d rows, want 1", got)
	}
}

// A server with a limit above the limit of the options does not store the part of a message that is below it.
func TestHigherLimitOfServer(t *testing.T) {
	_, _, conn := start(t, otlpgrpc.Options{MaxMessageBytes: 1 << 10}, []grpc.ServerOption{grpc.MaxRecvMsgSize(1 << 20)}, app(sink("rows", mapping.Body("b"))))
	for name, client := range map[string]plogotlp.GRPCClient{"plain": plogotlp.NewGRPCClient(conn), "zstd": dial(t, conn, zstdCompressor{})} {
		_, err := client.Export(with(t.Context(), "Bearer "+secret), logs(strings.Repeat("x", 2<<10)))
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "smaller batches") {
			t.Errorf("%s: got %v, want status.Code(err) == %v and strings.Contains(err.Error(), \"smaller batches\")", name, err, codes.ResourceExhausted)
		}
	}
}

// A caller without the secret is refused before anything of its message is read. It cannot make the server inflate a bomb.
func TestSecretBeforeMessage(t *testing.T) {
	_, _, conn := start(t, otlpgrpc.Options{}, nil, app(sink("rows", mapping.Body("b"))))
	ctx, cancel := context.WithTimeout(with(t.Context(), "Bearer wrong"), time.Minute)
	defer cancel()
	call, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, exportLogs)
	if err != nil {
		t.Fatal(err)
	}
	if err := call.RecvMsg(raw(nil)); status.Code(err) != codes.Unauthenticated { // no message was sent
		t.Error(err)
	}
}

// A caller with the secret cannot hold a call forever either, and others do not wait for it.
func TestSlowMessage(t *testing.T) {
	eng, _, conn := start(t, otlpgrpc.Options{ReadTimeout: 20 * time.Millisecond}, nil, app(sink("rows", mapping.Body("b"))))
	ctx, cancel := context.WithTimeout(with(t.Context(), "Bearer "+secret), time.Minute)
	defer cancel()
	call, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, exportLogs)
	if err != nil {
		t.Fatal(err)
	}
	err = call.RecvMsg(raw(nil))
	st := status.Convert(err)
	if st.Code() != codes.Unavailable || len(st.Details()) != 1 || !strings.Contains(st.Message(), "in time") {
		t.Errorf("got %v, details %v, want code Unavailable, \"in time\" and one detail", err, st.Details())
	}
	for { // this one may be slow, too, on a busy machine
		_, err := plogotlp.NewGRPCClient(conn).Export(ctx, logs("x"))
		if err == nil {
			break
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
	}
	if got := eng.Stats().Sinks[0].Accepted; got != 1 {
		t.Errorf("got %d rows, want 1", got)
	}
}

// Metadata can be in every row of a batch, so it is bounded as the headers of HTTP are. A client does not repeat a refused call, and
// its connection stays open for the next call.
func TestLargeMetadata(t *testing.T) {
	_, _, conn := start(t, otlpgrpc.Options{}, nil, app(sink("rows", mapping.Headers("h"))))
	var peers [4]peer.Peer
	for i, c := range []struct {
		size int
		want codes.Code
	}{{8 << 10, codes.OK}, {17 << 10, codes.InvalidArgument}, {512 << 10, codes.InvalidArgument}, {1, codes.OK}} {
		ctx := metadata.AppendToOutgoingContext(with(t.Context(), "Bearer "+secret), "x-large", strings.Repeat("x", c.size))
		if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, logs("a"), grpc.Peer(&peers[i])); status.Code(err) != c.want {
			t.Errorf("%d bytes: got %v, want %v", c.size, err, c.want)
		}
		if got, want := peers[i].LocalAddr, peers[0].LocalAddr; got == nil || got.String() != want.String() {
			t.Errorf("%d bytes: the call came from %v, want the connection of the first call, %v", c.size, got, want)
		}
	}
}

// Messages of all sizes arrive whole, whether in one frame or in many, and in buffers that others had before.
func TestMessageSizes(t *testing.T) {
	eng, mem, conn := start(t, otlpgrpc.Options{}, nil, app(sink("rows", mapping.Path("b", "body", mapping.RawString()))))
	var want []string
	for _, size := range []int{0, 1, 100, 16<<10 - 30, 16 << 10, 40_000, 300_000, 1 << 20, 500, 40_000} {
		text := strings.Repeat(string(rune('a'+len(want))), size)
		want = append(want, text)
		if _, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), logs(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := eng.Flush(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	rows := mem.Rows("in.c-app.rows")
	if len(rows) != len(want) {
		t.Fatalf("got %d rows, want %v", len(rows), len(want))
	}
	for i, row := range rows {
		if row[0] != want[i] {
			t.Errorf("row %d has %d bytes, want %d", i, len(row[0]), len(want[i]))
		}
	}
}

// Other services of the same server, and the services on a server of the user, have the codec of gRPC.
func TestOtherServices(t *testing.T) {
	eng, err := forebay.Open("data", forebay.Options{Staging: noStaging{}, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem())})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := eng.Define(t.Context(), app(sink("rows", mapping.Body("b")))); err != nil {
		t.Fatal(err)
	}
	own := grpc.NewServer()
	otlpgrpc.Register(own, eng, otlpgrpc.Options{})
	for name, srv := range map[string]*grpc.Server{"Server": otlpgrpc.Server(eng, otlpgrpc.Options{}), "Register": own} {
		grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = srv.Serve(listener) }()
		defer srv.Stop()
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		res, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil || res.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%s: got %v, %v, want no error and res.GetStatus() == %v", name, res, err, grpc_health_v1.HealthCheckResponse_SERVING)
		}
		if _, err := plogotlp.NewGRPCClient(conn).Export(with(t.Context(), "Bearer "+secret), logs("x")); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
	if got := eng.Stats().Sinks[0].Accepted; got != 2 {
		t.Errorf("got %d rows, want 2", got)
	}
}

// noStaging accepts nothing until the engine gives up.
type noStaging struct{}

func (noStaging) Put(ctx context.Context, _ driver.Object, _ driver.Content) error {
	<-ctx.Done()
	return ctx.Err()
}

func (noStaging) Open(context.Context, driver.Object) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(nil)), nil
}
func (noStaging) Delete(context.Context, ...driver.Object) error { return nil }
