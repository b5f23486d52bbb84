package otlpgrpc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	_ "go.opentelemetry.io/collector/pdata/plog/plogotlp" // its codec decodes messages that are not generated, see request
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // what most exporters compress with
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/deadline"
	"github.com/forebay/forebay/internal/intake"
	"github.com/forebay/forebay/internal/otlp"
	"github.com/forebay/forebay/internal/tracecontext"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// Server returns a server of the OTLP services whose limits keep a slow or hostile client from holding resources for long.
// More options can be added, for example TLS credentials. Later ones win. Call GracefulStop on the server before Close on
// the engine. It panics if opts.Validate reports an error.
//
//	ConnectionTimeout     10 s   until a new connection is ready
//	MaxConnectionIdle     5 min  a connection without a request
//	Options.ReadTimeout   30 s   from the headers of a request until its message is there
//	MaxConcurrentStreams  100    requests of one connection at a time
//	MaxRecvMsgSize        Options.MaxMessageBytes, for other services of the server
//	MaxHeaderListSize     1 MB   of the metadata of a request. The services refuse more than 16 KB with INVALID_ARGUMENT
//	InitialWindowSize     128 KB that a client may send of a request before it is read; it grows with a message
//	InitialConnWindowSize 1 MB   of all requests of one connection
//
// The number of connections is bounded by the listener. See stream.LimitConnections.
func Server(eng *forebay.Engine, opts Options, more ...grpc.ServerOption) *grpc.Server {
	limit := opts.withDefaults().MaxMessageBytes
	s := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(100),
		grpc.MaxRecvMsgSize(limit),
		grpc.MaxHeaderListSize(1 << 20),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(1 << 20),
		grpc.ForceServerCodecV2(newCodec()),
		//lint:ignore SA1019 what replaces it is global, see zstdDecoder
		grpc.RPCDecompressor(&zstdDecoder{limit: limit}),
	}, more...)...)
	Register(s, eng, opts)
	return s
}

// window is how far a client may send ahead of reading, and so the memory of a call before it is read. It fits most requests. A
// fixed window needs no pings to estimate it. Reads ask for as many bytes as are reserved, which doubles with the bytes received,
// so large messages do not wait long for the window.
const window = 128 << 10

// maxMetadata is the greatest metadata of a call in bytes. Above MaxHeaderListSize gRPC closes the connection, and clients repeat
// the call forever. So that limit is higher, and the services refuse the call with a status that is not retried.
const maxMetadata = 16 << 10

// callBytes is reserved for a call while its message arrives. It is twice the window, because partly filled frames take whole
// buffers, and because a call needs more than its bytes.
const callBytes = 2 * window

// Register adds the three OTLP services to a server. If eng has a tracer, the metadata traceparent of a call names the parent of its span, unless an
// interceptor or a stats handler has made one. The server must use the codec that gRPC has for "proto" (the default).
// It panics if opts.Validate reports an error.
func Register(s grpc.ServiceRegistrar, eng *forebay.Engine, opts Options) {
	if err := opts.Validate(); err != nil {
		panic(err)
	}
	opts = opts.withDefaults()
	srv := &server{eng: eng, opts: opts, traced: eng.Options().Tracer != nil, intake: intake.New(opts.MaxBufferedBytes)}
	srv.calls.New = func() any { return &callMemory{header: make(http.Header, 16)} }
	register := func(name string, export grpc.MethodHandler) {
		s.RegisterService(&grpc.ServiceDesc{
			ServiceName: name, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: export}},
		}, srv)
	}
	for signal, name := range services {
		register(name, func(_ any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			return srv.handle(ctx, signal, dec, interceptor)
		})
	}
	register(profiles, func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		return nil, status.Error(codes.Unimplemented, otlp.NoProfiles)
	})
}

// profiles is the service of an unsupported signal. It is registered so that the response says so.
const profiles = "opentelemetry.proto.collector.profiles.v1development.ProfilesService"

var services = map[forebay.Signal]string{
	forebay.SignalLogs:    "opentelemetry.proto.collector.logs.v1.LogsService",
	forebay.SignalMetrics: "opentelemetry.proto.collector.metrics.v1.MetricsService",
	forebay.SignalTraces:  "opentelemetry.proto.collector.trace.v1.TraceService",
}

// keyName is the metadata with the key of a batch. Sending the batch again stores only the missing rows.
var keyName = strings.ToLower(callkey.Header)

type server struct {
	eng       *forebay.Engine
	opts      Options
	traced    bool // the engine has a tracer
	intake    *intake.Intake
	deadlines deadline.Shared
	// calls holds *callMemory.
	calls sync.Pool
}

// callMemory is the reusable memory of one call.
type callMemory struct {
	rec    mapping.Record
	header http.Header
	body   intake.Body
	prefix [5]byte // of the message
}

// request is what interceptors see as the message of a call. The secret and the cost are checked before it is decoded.
type request struct {
	signal  forebay.Signal
	srv     *server
	call    *callMemory
	headers int // bytes of metadata
	sum     otlp.Sum
	docs    iter.Seq[mapping.FieldDocument]
	err     error
}

var errTooLarge = errors.New("otlpgrpc: the message is too large")

// decode makes records of a message. Its errors describe the fault in the request.
func (r *request) decode(data []byte) error {
	in, body := r.srv.intake, &r.call.body
	cost, err := otlp.Check(r.signal, otlp.Protobuf, data, r.headers, in.Room(body))
	if err != nil {
		return err
	}
	if err := in.Take(body, cost); err != nil {
		return err
	}
	r.sum = otlp.SumOf(data)
	r.docs, _, err = otlp.Decode(r.signal, otlp.Protobuf, data, r.headers)
	in.Drop(body) // decoded records have their own copy
	return err
}

// UnmarshalProto is called by the codec of a server that is not gRPC's own. data is valid only during the call. Its errors would
// become INTERNAL, so it keeps them.
func (r *request) UnmarshalProto(data []byte) error {
	if len(data) > r.srv.opts.MaxMessageBytes { // the server may have a higher limit
		r.err = errTooLarge
		return nil
	}
	r.err = r.decode(data)
	return nil
}

// SizeProto and MarshalProto satisfy the codec. A server does not send requests.
func (*request) SizeProto() int          { return 0 }
func (*request) MarshalProto([]byte) int { return 0 }

// response is the encoded response of a call.
type response []byte

func (r response) SizeProto() int              { return len(r) }
func (r response) MarshalProto(dst []byte) int { return copy(dst, r) }

// UnmarshalProto satisfies the codec. A server does not receive responses.
func (response) UnmarshalProto([]byte) error { return nil }

// handle serves one call. The message is read, inflated and decoded only after the secret has been checked.
func (s *server) handle(ctx context.Context, signal forebay.Signal, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	headers := size(md)
	if headers > maxMetadata {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("The metadata is %d bytes, above the limit of %d. "+
			"Send less metadata.", headers, maxMetadata))
	}
	source, err := s.authorize(md)
	if err != nil {
		return nil, err
	}
	c := s.calls.Get().(*callMemory)
	defer s.release(c)
	req := &request{signal: signal, srv: s, call: c, headers: headers}
	if err := s.read(ctx, req, dec); err != nil {
		return nil, err
	}
	export := func(ctx context.Context, _ any) (any, error) { return s.export(ctx, source, md, req) }
	if interceptor == nil {
		return export(ctx, req)
	}
	return interceptor(ctx, req, &grpc.UnaryServerInfo{Server: s, FullMethod: "/" + services[signal] + "/Export"}, export)
}

func (s *server) release(c *callMemory) {
	s.intake.Release(&c.body)
	c.rec.Reset()
	clear(c.header)
	if c.body.Reuse() {
		s.calls.Put(c)
	}
}

// authorize finds the source of a call.
func (s *server) authorize(md metadata.MD) (source string, err error) {
	src, err := otlp.SourceOf(s.eng.SourcesWithSecret(otlp.Bearer(md["authorization"])))
	switch {
	case errors.Is(err, otlp.ErrNoSource):
		return "", status.Error(codes.Unauthenticated, otlp.Sentence(err))
	case err != nil:
		return "", status.Error(codes.FailedPrecondition, otlp.Sentence(err))
	case src.Disabled:
		return "", errPaused()
	}
	return src.ID, nil
}

func (s *server) export(ctx context.Context, source string, md metadata.MD, req *request) (any, error) {
	if req.err != nil {
		return nil, s.failure(ctx, req.err)
	}
	c := req.call
	s.setHeaders(c.header, md)
	request := mapping.Record{Header: c.header, ClientIP: clientIP(ctx), Received: time.Now()}
	// The batch is complete, so it is stored even if the client has left.
	wait := s.deadlines.From(request.Received)
	if s.traced {
		wait = tracecontext.Of(wait, ctx, md.Get)
	}
	once, err := otlp.Once(&otlp.Request{
		Signal: req.signal, Encoding: otlp.Protobuf, Keys: md[keyName],
		Header: c.header, Sum: req.sum, Received: request.Received, Window: s.opts.BatchWindow,
	}, req.docs)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "The metadata "+keyName+" must have 1 to 255 characters.")
	}
	var turn forebay.Turn
	taken := false
	defer func() { turn.End(taken && ctx.Err() == nil) }()
	if otlp.Nameless(once) {
		once.Turn = &turn
	}
	res, err := s.eng.IngestAtomic(wait, source, forebay.Batch{Signal: req.signal, Records: otlp.Records(&c.rec, req.docs, request), Once: once})
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	taken = true
	message := otlp.Summary(req.signal, res)
	if res.Rejected > 0 && res.Rejected == res.Records {
		return nil, status.Error(codes.InvalidArgument, message)
	}
	return response(otlp.AppendResponse(nil, req.signal, otlp.Protobuf, otlp.Rejected(res), message)), nil
}

// failure makes the status of a batch that was not taken: UNAVAILABLE when another attempt can fix it.
func (s *server) failure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return status.Error(codes.ResourceExhausted, fmt.Sprintf("The message has more than %d bytes without its compression. "+
			"Send smaller batches.", s.opts.MaxMessageBytes))
	case errors.Is(err, forebay.ErrOtherContent):
		return status.Error(codes.InvalidArgument, "The "+keyName+" was used for another batch. Nothing was stored.")
	case errors.Is(err, forebay.ErrUnknownSource):
		return status.Error(codes.Unauthenticated, "The source was removed.")
	case errors.Is(err, forebay.ErrDisabledSource):
		return errPaused()
	case errors.Is(err, otlp.ErrRequest):
		return status.Error(codes.InvalidArgument, otlp.Sentence(err))
	}
	switch e := wire.Prefix("").Failure(err, "batch"); {
	case e.Cause != nil:
		s.opts.Logger.LogAttrs(ctx, slog.LevelError, "export failed", slog.Any("cause", err), slog.String("next", "the exporter sends the batch again; report the cause if it recurs"))
		return unavailable(time.Second, "Internal error. Send the batch again later.")
	case e.Status == http.StatusRequestEntityTooLarge:
		return status.Error(codes.InvalidArgument, e.Message+" Send smaller batches.")
	default:
		return unavailable(e.RetryAfter, e.Message)
	}
}

// errPaused is retryable because a source is disabled for a while, and enabled again.
func errPaused() error {
	return unavailable(otlp.PausedRetryAfter, "The source is disabled. Send the batch again later.")
}

// unavailable is a status after which exporters send the batch again, when the delay has passed.
func unavailable(after time.Duration, message string) error {
	st := status.New(codes.Unavailable, message)
	with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(max(after, time.Second))})
	if err != nil { // cannot be, because the detail is a valid message
		return st.Err()
	}
	return with.Err()
}

// size is the approximate number of bytes of metadata.
func size(md metadata.MD) (n int) {
	for name, values := range md {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// setHeaders sets h to the metadata of a call as the headers of a request, without the secret and those to be hidden.
func (s *server) setHeaders(h http.Header, md metadata.MD) {
	for name, values := range md {
		switch {
		case name == "authorization":
		case name == ":authority":
			h["Host"] = values
		case !strings.HasPrefix(name, ":"):
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	for _, name := range s.opts.HiddenHeaders {
		h.Del(name)
	}
}

// clientIP returns the address of the peer, the zero value if it has none.
func clientIP(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return netip.Addr{}
	}
	tcp, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}
