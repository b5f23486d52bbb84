package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"google.golang.org/grpc"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/program/server"
	"github.com/forebay/forebay/internal/program/web"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/otlpgrpc"
)

// grpcServer gives a gRPC server the methods of an HTTP server.
type grpcServer struct{ *grpc.Server }

// Shutdown implements [web.HTTP].
func (s grpcServer) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.Stop()
		<-done
		return ctx.Err()
	}
}

// Close implements [web.HTTP].
func (s grpcServer) Close() error {
	s.Stop()
	return nil
}

// Serve implements [web.HTTP]. A server that was stopped before it served has not failed.
func (s grpcServer) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return http.ErrServerClosed
}

// listenOTLP listens on the ports of OpenTelemetry. It skips an empty address. On HTTP every path of the handler of events works, and so
// does /v1/logs with a secret as bearer token. A busy port of cfg.Optional is left out with a warning, unless no port is left.
func listenOTLP(cfg *serveConfig, eng *forebay.Engine, events http.Handler, logger *slog.Logger) (servers []server.Listener, err error) {
	var skipped error // the error of a busy port that was left out
	for _, l := range []struct {
		name, addr string
		server     func() web.HTTP
	}{
		{"otlp-grpc", cfg.otlpGRPC, func() web.HTTP {
			return grpcServer{otlpgrpc.Server(eng, otlpgrpc.Options{Logger: logger, HiddenHeaders: cfg.Stream.HiddenHeaders})}
		}},
		{"otlp-http", cfg.otlpHTTP, func() web.HTTP {
			s := stream.Server("", web.Named(events))
			s.ErrorLog = slog.NewLogLogger(logger.With("server", "otlp-http").Handler(), slog.LevelWarn)
			return s
		}},
	} {
		if l.addr == "" {
			continue
		}
		listener, err := server.Listen(l.name, l.addr)
		if err != nil && cfg.Optional[l.name] {
			logger.Warn("OTLP port not open", "flag", "-"+l.name, "address", l.addr, "cause", err, "next", "free the port, or set a different one")
			skipped = err
			continue
		}
		if err != nil {
			return servers, fmt.Errorf("%w, or turn it off with -%s=off", err, l.name)
		}
		servers = append(servers, server.Listener{Name: l.name, Server: web.Start(stream.LimitConnections(listener, cfg.MaxConnections), l.server())})
	}
	if skipped != nil && len(servers) == 0 && cfg.needsOTLP {
		return nil, fmt.Errorf("no port of OTLP is open: %w; choose other addresses with -otlp-grpc and -otlp-http", skipped)
	}
	return servers, nil
}
