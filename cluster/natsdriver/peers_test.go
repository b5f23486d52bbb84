package natsdriver

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
)

func newPeers(tb testing.TB, server int, o Options) *Peers {
	tb.Helper()
	p, err := NewPeers(connect(tb, server), patient(o))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A request reaches every node of its cluster, through different servers, and large responses arrive whole. A node that does not respond, or
// has stopped, is left out.
func TestAskAllNodes(t *testing.T) {
	mine := Options{Cluster: "peers"}
	var stops []func()
	serve := func(server int, o Options, response func(context.Context, []byte) []byte) *Peers {
		t.Helper()
		p := newPeers(t, server, o)
		stop, err := p.Serve(response)
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
		return p
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 3*responsePart/16+1)
	echo := func(node string) func(context.Context, []byte) []byte {
		return func(_ context.Context, request []byte) []byte { return fmt.Appendf(nil, "%s of %s", request, node) }
	}
	asker := serve(0, mine, func(context.Context, []byte) []byte { return nil })
	serve(1, mine, echo("b"))
	serve(2, mine, func(context.Context, []byte) []byte { return large })
	serve(1, Options{Cluster: "another"}, echo("another"))
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	ask := func(want int, timeout time.Duration) (responses []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		for response, err := range asker.Ask(ctx, []byte("request")) {
			if err != nil {
				t.Fatal(err)
			}
			if responses = append(responses, string(response)); len(responses) == want {
				break
			}
		}
		slices.SortFunc(responses, func(a, b string) int { return strings.Compare(b, a) })
		return responses
	}
	// The servers tell each other about subscriptions, which takes a moment.
	if err := clustertest.Eventually(func() error {
		if got := ask(2, time.Second); len(got) != 2 || got[0] != "request of b" || got[1] != string(large) {
			return fmt.Errorf("%d responses", len(got))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	stops[2]()
	if got := ask(2, 5*time.Second); !slices.Equal(got, []string{"request of b"}) {
		t.Errorf("with a node that has stopped there are %.40q", got)
	}
}

// A request that no node serves ends at once with an error, and one that waits with its context.
func TestAskNobody(t *testing.T) {
	alone := newPeers(t, 0, Options{Cluster: "alone"})
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	var failed error
	for response, err := range alone.Ask(ctx, []byte("request")) {
		failed = err
		if err == nil {
			t.Errorf("a response %q", response)
		}
	}
	if failed == nil || ctx.Err() != nil {
		t.Errorf("nobody serves: %v, %v", failed, ctx.Err())
	}
	entered, canceled := make(chan struct{}), make(chan struct{})
	stop, err := alone.Serve(func(ctx context.Context, _ []byte) []byte {
		close(entered)
		<-ctx.Done()
		close(canceled)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	asking, end := context.WithCancel(t.Context())
	go func() { <-entered; end() }()
	for response, err := range alone.Ask(asking, []byte("request")) {
		t.Errorf("response %q, %v", response, err)
	}
	stop()
	select {
	case <-canceled:
	default:
		t.Error("stop has returned while a request was under way")
	}
}

// The servers send each part of a response once, even over a connection that has made requests of other kinds.
func TestAnswersComeOnce(t *testing.T) {
	o := Options{Cluster: "peers-once"}
	responder, asker := newPeers(t, 1, o), newPeers(t, 0, o)
	stop, err := responder.Serve(func(_ context.Context, request []byte) []byte {
		return bytes.Repeat([]byte("a"), len(request)*responsePart)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := clustertest.Eventually(func() error { // the servers know who serves, and the connection has made a request
		_, err := asker.conn.Request(asker.subject, nil, time.Second)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	got := func() uint64 { return asker.conn.Stats().InBytes }
	before := got()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	for response, err := range asker.Ask(ctx, []byte("abc")) {
		if err != nil || len(response) != 3*responsePart {
			t.Fatal(len(response), err)
		}
		break
	}
	if err := asker.conn.FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
	if n := got() - before; n >= 5*responsePart {
		t.Errorf("%d bytes came for a response of %d, want less than %v", n, 3*responsePart, 5*responsePart)
	}
}
