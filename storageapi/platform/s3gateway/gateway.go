package s3gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"

	"github.com/forebay/forebay/storageapi/platform"
)

// Gateway serves S3 requests. It is an [http.Handler], and safe for concurrent use.
type Gateway struct {
	server *s3api.S3ApiServer
	proxy  *httputil.ReverseProxy
	dial   *http.Transport
	dir    string // of the socket between the handler and the gateway
	served chan error
}

// maxRequests bounds the requests that are served at once. Further requests are refused with SlowDown.
const maxRequests = 4096

// smallBody is the most bytes of a body that are read before the request is handed on. Clients ask with "Expect: 100-continue"
// before they send bodies of megabytes, and repeat what failed.
const smallBody = 64 << 10

// Open begins to serve. The caller must close the gateway before the server of the objects.
func Open(objects *platform.Objects) (*Gateway, error) {
	g, err := open(objects)
	if err != nil {
		return nil, fmt.Errorf("s3gateway: %w", err)
	}
	return g, nil
}

func open(objects *platform.Objects) (*Gateway, error) {
	// The gateway listens by itself and cannot be called. It gets a socket that only this user reaches, and a proxy in front
	// of it is the handler, so that the embedder's own server has the port and the certificate.
	dir, err := os.MkdirTemp("", "forebay-s3-") // 0700
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	listening := make(chan struct{})
	server, err := s3api.New(
		&backend{objects: objects}, middlewares.RootUserConfig{}, objects.Region(), &identities{objects: objects}, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithDisableACL(), s3api.WithConcurrencyLimiter(maxRequests, maxRequests),
		s3api.WithSocketPerm(0o600), s3api.WithOnListen(func() { close(listening) }),
	)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	g := &Gateway{server: server, dir: dir, served: make(chan error, 1)}
	go func() { g.served <- server.ServeMultiPort([]string{socket}) }()
	select {
	case <-listening:
	case err := <-g.served:
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	g.dial = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
		DisableCompression: true, MaxIdleConnsPerHost: 64,
	}
	g.proxy = &httputil.ReverseProxy{
		Transport:     g.dial,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			// Host and path are signed, so they stay unchanged.
			r.Out.URL = &url.URL{
				Scheme: "http", Host: "gateway", Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery,
			}
			r.Out.Host = r.In.Host
		},
	}
	return g, nil
}

// ServeHTTP serves one request. Its path begins with the bucket.
//
// The gateway refuses a request before it reads the body. The connection is then closed, and a client that still sends may lose
// the response with it. So a small body is read first.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if 0 < r.ContentLength && r.ContentLength <= smallBody {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	g.proxy.ServeHTTP(w, r)
}

// Close ends the requests in progress and stops serving.
func (g *Gateway) Close() error {
	g.dial.CloseIdleConnections()
	err := g.server.ShutDown()
	<-g.served // its error is that the listener was closed
	return errors.Join(err, os.RemoveAll(g.dir))
}
