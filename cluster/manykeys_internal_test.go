package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
	"github.com/forebay/forebay/internal/synctest"
)

// A node of a large cluster asks less often, so that the questions to each node stay bounded when all nodes ask at once. A small cluster does not wait, and no call
// waits longer than from one question to the next.
func TestQuestionsOfManyNodes(t *testing.T) {
	const seconds, callers, trip = 10, 20, time.Millisecond
	for _, n := range []int{3, 9, 50, 200} {
		synctest.Test(t, func(t *testing.T) {
			k := newCallKeys("node", slog.New(slog.DiscardHandler))
			defer k.close()
			k.own = "i0"
			k.here = func(keys []buffer.Key) ([]string, []instance.KnownKey) {
				return []string{"i0"}, make([]instance.KnownKey, len(keys))
			}
			all := keysResponse{Format: nodeFormat, Node: "others"}
			for i := range n {
				name := fmt.Sprint("i", i)
				value, err := changelog.Owner{Node: name, Session: "s", Epoch: 1, State: changelog.Owned, Lease: time.Second}.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				k.records.see(changelog.Versioned{Key: changelog.OwnerKey(name), Value: value, Version: 1})
				all.Instances = append(all.Instances, name)
			}
			k.records.see(changelog.Versioned{})
			response, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			var questions atomic.Int64
			k.others = func(context.Context, []byte) iter.Seq2[[]byte, error] {
				questions.Add(1)
				return func(yield func([]byte, error) bool) {
					time.Sleep(trip)
					yield(response, nil)
				}
			}
			var calling sync.WaitGroup
			longest := make([]time.Duration, callers)
			for c := range callers {
				calling.Go(func() {
					for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
						began := time.Now()
						if _, err := k.known(t.Context(), buffer.Key{byte(c)}); err != nil {
							t.Errorf("call %d of a node of %d: %v", c, n, err)
							return
						}
						longest[c] = max(longest[c], time.Since(began))
					}
				})
			}
			calling.Wait()
			perSecond := float64(questions.Load()) / seconds
			if toNode := perSecond * float64(n-1); n > 9 && toNode > 2500 {
				t.Errorf("when all of %d nodes ask, a node gets %.0f questions a second, want at most 2500", n, toNode)
			}
			if n <= 9 && perSecond < 0.9*float64(time.Second/trip)/2 {
				t.Errorf("a node of %d asks %.0f questions a second, want one as soon as it has the responses to the last one", n, perSecond)
			}
			for c, got := range longest {
				if most := 2*trip + 2*keyPause*time.Duration(n); got > most {
					t.Errorf("call %d of a node of %d took %s, want at most %s", c, n, got, most)
				}
			}
		})
	}
}
