package cluster

import (
	"context"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
)

// A call that lets a call at another node pass asks again, and finds what that call has stored meanwhile.
func TestCallThatWasPassedAsksAgain(t *testing.T) {
	var key buffer.Key
	stored, running := map[string]bool{}, map[string]bool{}
	nodes := map[string]*callKeys{}
	hold, held := make(chan struct{}), make(chan struct{}) // the first response to the last node
	for _, name := range []string{"first", "last"} {
		k := newCallKeys(name, slog.New(slog.DiscardHandler))
		k.own = name
		k.here = func(keys []buffer.Key) ([]string, []instance.KnownKey) {
			known := make([]instance.KnownKey, len(keys))
			known[0].Running = running[name]
			if stored[name] {
				known[0].Receipts = []buffer.Receipt{{SinkID: "web/events"}}
			}
			return []string{name}, known
		}
		once := name == "last"
		k.others = func(_ context.Context, request []byte) iter.Seq2[[]byte, error] {
			return func(yield func([]byte, error) bool) {
				for other, peer := range nodes {
					if other == name {
						continue
					}
					response := peer.respond(request)
					if once {
						once = false
						close(held)
						<-hold
					}
					yield(response, nil)
				}
			}
		}
		for _, owner := range []string{"first", "last"} {
			value, err := changelog.Owner{Node: owner, Session: "s", Epoch: 1, State: changelog.Owned, Lease: time.Second}.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			k.records.see(changelog.Versioned{Key: changelog.OwnerKey(owner), Value: value, Version: 1})
		}
		k.records.see(changelog.Versioned{})
		nodes[name] = k
		defer k.close()
	}
	running["last"] = true
	type outcome struct {
		found []buffer.Receipt
		err   error
	}
	last := make(chan outcome)
	go func() {
		found, err := nodes["last"].known(t.Context(), key)
		last <- outcome{found, err}
	}()
	<-held // the first node had nothing then
	running["first"] = true
	if found, err := nodes["first"].known(t.Context(), key); err != nil || len(found) > 0 {
		t.Fatalf("the first node: got %d receipts, %v, want none, because the other call has stored nothing", len(found), err)
	}
	stored["first"], running["first"] = true, false
	close(hold)
	if got := <-last; got.err != nil || len(got.found) != 1 {
		t.Errorf("the last node: got %d receipts, %v, want the one that the first node has stored", len(got.found), got.err)
	}
}
