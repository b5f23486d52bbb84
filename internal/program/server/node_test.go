package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/stream/streamapi"
)

// toyNode is a node whose instance can be taken away.
type toyNode struct {
	eng     *forebay.Engine
	cat     *catalog.Catalog
	handler http.Handler
	done    chan struct{}
	lost    error
	closed  error
}

func (n *toyNode) Engine() *forebay.Engine                       { return n.eng }
func (n *toyNode) Catalog() *catalog.Catalog                     { return n.cat }
func (n *toyNode) Handler() http.Handler                         { return n.handler }
func (n *toyNode) Nodes(context.Context) ([]catalog.Node, error) { return nil, nil }
func (n *toyNode) Done() <-chan struct{}                         { return n.done }
func (n *toyNode) Err() error                                    { return n.lost }
func (n *toyNode) Close() error                                  { return errors.Join(n.cat.Close(), n.eng.Close(), n.closed) }

func openToyNode(dir string, opts NodeOptions) (*toyNode, error) {
	eng, err := forebay.Open(dir, opts.Engine)
	if err != nil {
		return nil, err
	}
	cat, err := catalog.Open(filepath.Join(dir, "catalog"), eng, opts.Catalog)
	if err != nil {
		return nil, err
	}
	api, err := streamapi.New(cat, opts.API)
	return &toyNode{eng: eng, cat: cat, handler: api, done: make(chan struct{})}, err
}

// A node that has lost its instance is opened again at the same addresses, in the same process. While a node opens, a health check
// returns 200 and all else 503.
func TestNodeOpensAgain(t *testing.T) {
	dir := t.TempDir()
	var cfg Config
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	cfg.Register(flags)
	if err := flags.Parse([]string{"-ui", "-token", "token-of-all-nodes", "-dir", dir, "-addr", "127.0.0.1:0", "-api-addr", "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opening, goOn := make(chan NodeOptions), make(chan *toyNode)
	parts := Parts{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), OpenNode: func(ctx context.Context, opts NodeOptions) (Node, error) {
		opening <- opts
		select {
		case node := <-goOn:
			return node, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, cfg, parts, in)
		in.Close()
		ended <- err
	}()
	ready := make(chan string, 3)
	go func() {
		defer close(ready)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready ") {
				ready <- lines.Text()
			}
		}
	}()
	status := func(url string) int {
		t.Helper()
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	waits := func(opts NodeOptions) {
		t.Helper()
		if got := status(opts.API.IngestURL + "/health-check"); got != http.StatusOK {
			t.Errorf("a health check is answered %d", got)
		}
		for _, url := range []string{opts.API.IngestURL + "/readiness-check", opts.API.IngestURL + "/stream/1/web/x", opts.API.URL + "/v1/documentation"} {
			if got := status(url); got != http.StatusServiceUnavailable {
				t.Errorf("%s is answered %d, want %v", url, got, http.StatusServiceUnavailable)
			}
		}
	}
	var first string
	for try := range 3 {
		opts := <-opening
		waits(opts)
		node, err := openToyNode(filepath.Join(dir, "engine"), opts)
		if err != nil {
			t.Fatal(err)
		}
		node.lost, node.closed = errors.New("another node has it"), &buffer.FailedError{Err: errors.New("the log is away")}
		goOn <- node
		line, ok := <-ready
		if !ok {
			t.Fatalf("the server has ended: %v", <-ended)
		}
		if first = cmp.Or(first, line); line != first || !strings.Contains(line, "api="+strings.TrimPrefix(opts.API.URL, "http://")) {
			t.Errorf("got line %q, first %q, want the same line each time with the address in %s", line, first, opts.API.URL)
		}
		for url, want := range map[string]int{
			opts.API.URL + "/v1/documentation": http.StatusOK, opts.API.IngestURL + "/stream/1/web/x": http.StatusMethodNotAllowed,
			opts.API.URL + "/console/": http.StatusOK,
		} {
			if got := status(url); got != want {
				t.Errorf("%s is answered %d, want %d", url, got, want)
			}
		}
		if try < 2 {
			close(node.done)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// One that is stopped while it waits for others has not failed.
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-opening
		cancel()
	}()
	if err := Run(ctx, cfg, parts, io.Discard); err != nil {
		t.Error(err)
	}
}
