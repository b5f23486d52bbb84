package buckettest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy forwards requests to a server and injects the faults that a test asks for. It is safe for concurrent use.
type Proxy struct {
	// Address is HOST:PORT.
	Address string

	mu    sync.Mutex
	fault func(r *http.Request) Fault
	watch func(r *http.Request)
}

// Fault is what happens to a request.
type Fault int

// The faults.
const (
	None        Fault = iota
	SlowDown          // 503, as S3 throttles. The server does not see the request
	Conflict          // 409, as S3 returns for racing puts of one key. The server does not see the request
	Taken             // 412, which S3 returns for a put to a key that has an object. The server does not see the request
	Denied            // 403, and the server does not see the request
	Expired           // 400 ExpiredToken. The server does not see the request
	Lost              // the server executes the request, but the connection breaks before the response
	TornRequest       // the connection breaks in the middle of the request's body, which the server does not see
	TornAnswer        // the connection breaks in the middle of the response's body
)

var answers = map[Fault]struct {
	status int
	code   string
}{
	SlowDown: {http.StatusServiceUnavailable, "SlowDown"},
	Conflict: {http.StatusConflict, "ConditionalRequestConflict"},
	Taken:    {http.StatusPreconditionFailed, "PreconditionFailed"},
	Denied:   {http.StatusForbidden, "AccessDenied"},
	Expired:  {http.StatusBadRequest, "ExpiredToken"},
}

// NewProxy starts a proxy before an S3 server.
func NewProxy(t *testing.T, server string) *Proxy {
	p := &Proxy{}
	forward := &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0), // of clients that go away
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: server})
			r.Out.Host = r.In.Host // it is signed
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch fault := p.faultOf(r); fault {
		case None:
			forward.ServeHTTP(w, r)
		case Lost:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case TornRequest:
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
			panic(http.ErrAbortHandler)
		case TornAnswer:
			whole := httptest.NewRecorder()
			forward.ServeHTTP(whole, r)
			for name, values := range whole.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(whole.Code)
			_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.Copy(io.Discard, r.Body)
			a := answers[fault]
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(a.status)
			_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+a.code+`</Code><Message>by the test</Message></Error>`)
		}
	}))
	t.Cleanup(s.Close)
	p.Address = strings.TrimPrefix(s.URL, "http://")
	return p
}

// Break decides about each request from now on. Nil breaks none.
func (p *Proxy) Break(fault func(r *http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// First breaks the first n requests that match.
func (p *Proxy) First(n int, fault Fault, match func(r *http.Request) bool) {
	p.Break(func(r *http.Request) Fault {
		if n == 0 || !match(r) {
			return None
		}
		n--
		return fault
	})
}

// Watch shows each request from now on.
func (p *Proxy) Watch(watch func(r *http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

func (p *Proxy) faultOf(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watch != nil {
		p.watch(r)
	}
	if p.fault == nil {
		return None
	}
	return p.fault(r)
}
